"""What a child sees of the user's environment, and from where it imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.launch.environment import allowed, environment
from profkit.launch.protocol import command


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "HF_TOKEN", "HF_HOME", "AWS_SECRET_ACCESS_KEY", "TORCH_API_KEY", "GITHUB_TOKEN", "MY_PASSWORD"],
)
def test_secrets_and_strangers_stay_here(name):
    assert allowed({name: "x"}) == {}


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "LC_ALL", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "TORCH_LOGS"]
    + ["TRITON_INTERPRET", "OMP_NUM_THREADS", "PYTHONHASHSEED", "TMPDIR", "PROFKIT_CACHE", "CXX", "MAX_JOBS"],
)
def test_what_is_of_use_goes_on(name):
    assert allowed({name: "x"}) == {name: "x"}


def test_relative_places_to_import_from_are_left_out(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", "relative", "/somewhere"]))
    places = environment()["PYTHONPATH"].split(os.pathsep)
    assert "/somewhere" in places
    assert all(os.path.isabs(place) for place in places)


@pytest.mark.slow
def test_what_lies_in_the_working_directory_is_not_imported(tmp_path):
    (tmp_path / "statistics.py").write_text("open('ran', 'w')\n")
    argv = command(Path("no-job"), Path("no-events"))
    done = subprocess.run(argv, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert "no-job" in done.stderr
    argv[-2:] = []
    code = "import profkit.judge.timing.engine, statistics; print(statistics.__file__)"
    told = subprocess.run(
        [*argv[: argv.index("-m")], "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(tmp_path) not in told.stdout
    assert argv[0] == sys.executable
    assert not (tmp_path / "ran").exists()
