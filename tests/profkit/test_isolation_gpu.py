"""Two processes on one GPU, timed in turns; needs an NVIDIA GPU and nvcc."""

import statistics
import subprocess
import time

import pytest
import torch
from candidates import timings

from profkit.api import profile
from profkit.launch import gpu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU"),
]

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, n)
    def forward(self, x):
        return torch.relu(self.layer(x)) * 2

def get_inputs():
    return [torch.randn(2048, 2048)]

def get_init_inputs():
    return [2048]
"""
RESULT = "        return torch.relu(self.layer(x)) * 2\n"
HEAD = REFERENCE.partition(RESULT)[0].replace("Model(", "ModelNew(")
LIAR = f"""
import sys
import torch

TRUE = torch.cuda.Event.elapsed_time

def once(self, other):
    torch.cuda.Event.elapsed_time = TRUE
    return 1e-3
{HEAD}
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code.co_name == "sample" and frame.f_code.co_filename.endswith("clocks.py"):
                torch.cuda.Event.elapsed_time = once
            frame = frame.f_back
{RESULT}"""
FAULT = f'''
from torch.utils.cpp_extension import load_inline

module = load_inline(name="isolated_fault", cpp_sources="void poke();", functions=["poke"], cuda_sources="""
__global__ void wild(int *p) {{ *p = 1; }}
void poke() {{ wild<<<1, 1>>>((int *)0x10); }}
""")
{HEAD}
        module.poke()
        torch.cuda.synchronize()
        return x
'''


def measure(root, **sources):
    folder = root / "linear"
    folder.mkdir(exist_ok=True)
    (folder / "reference.py").write_text(REFERENCE)
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    patch = pytest.MonkeyPatch()
    patch.setenv("PROFKIT_CACHE", str(root / "cache"))
    try:
        return profile(folder, counters="off", budget=2.0, trials=2, runs=root / "runs", progress=print)
    finally:
        patch.undo()


def times(run):
    found: dict[tuple[str, str], list[float]] = {}
    for row in timings(run):
        if row["kept"] == "1":
            found.setdefault((row["impl"], row["method"]), []).append(float(row["seconds"]))
    return {key: statistics.median(values) for key, values in found.items()}


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    root = tmp_path_factory.mktemp("isolated")
    return measure(root, honest=HEAD + RESULT, fault=FAULT, liar=LIAR)


def test_each_is_named_and_the_rest_goes_on(gallery):
    statuses = {impl.name: (impl.status, impl.reason) for impl in gallery.manifest.impls}
    assert statuses["reference"][0] == "ok"
    assert statuses["honest"][0] == "ok", statuses["honest"]
    assert statuses["fault"][0] == "corrupt", statuses["fault"]


def test_a_timer_replaced_within_the_call_is_named_or_times_nothing(gallery):
    liar, found = next(impl for impl in gallery.manifest.impls if impl.name == "liar"), times(gallery)
    if liar.status not in ("timer-lie", "patched"):
        timed = {method for name, method in found if name == "liar"}
        assert timed, (liar.status, liar.reason)
        for method in timed & {"event", "cupti"}:
            assert found["liar", method] == pytest.approx(found["honest", method], rel=0.1)


def test_every_method_judges_both_processes(gallery):
    found = times(gallery)
    for name in ("reference", "honest"):
        assert {method for impl, method in found if impl == name} >= {"event", "cupti", "host", "outside"}
    assert not [d for d in gallery.manifest.caveats if "CUPTI" in d.what], gallery.manifest.caveats


def test_the_same_work_takes_the_same_time_on_both_sides(gallery):
    found = times(gallery)
    for method in ("event", "cupti"):
        assert found["honest", method] == pytest.approx(found["reference", method], rel=0.05)


LOOKS = 3


def test_what_is_seen_from_outside_agrees(gallery, tmp_path):
    """In one of several looks: what others do on this GPU in one of them makes it longer from outside, and never shorter
    in all.
    """
    ratios = []
    for look in range(LOOKS):
        run = gallery
        if look:
            (tmp_path / str(look)).mkdir()
            run = measure(tmp_path / str(look), honest=HEAD + RESULT)
        found = times(run)
        ratios.append([found[name, "outside"] / found[name, "cupti"] for name in ("reference", "honest")])
        if ratios[-1] == pytest.approx([1.0, 1.0], rel=0.25):
            return
    longer = all(max(look) > 1.25 for look in ratios)
    if longer and others_at_work():
        pytest.skip(f"others were at work on this GPU: {ratios}")
    pytest.fail(f"from outside over CUPTI, reference and honest, look by look: {ratios}")


def others_at_work():
    """Whether the GPU is in use while nothing of this process runs there."""
    torch.cuda.synchronize()
    asked = ["nvidia-smi", f"--id={gpu.identity()['uuid']}", "--query-gpu=utilization.gpu"]
    seen = []
    for _ in range(5):
        time.sleep(1.5)  # longer than the period over which the driver takes its mean
        told = subprocess.run([*asked, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=False)
        seen.append(int(told.stdout) if told.stdout.strip().isdigit() else 0)
    return max(seen) > 0
