"""What is shipped: packages, data, entry points, and constraints that fit the declared ranges."""

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import resources
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from profkit import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
HOUSES = ("analyzers", "collectors", "profkit", "roofline")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def requirements() -> list[Requirement]:
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    return [Requirement(line) for line in (*project["dependencies"], *extras["test"], *extras["dev"])]


def pins() -> list[Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_package_is_found():
    """Every folder with Python in it is a package, and every house is looked into."""
    found = PROJECT["tool"]["setuptools"]["packages"]["find"]
    assert found == {"include": [f"{house}*" for house in sorted(HOUSES)], "namespaces": False}
    folders = {file.parent for house in HOUSES for file in (ROOT / house).rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_data_file_is_shipped():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]
    left_out = [
        str(file.relative_to(ROOT))
        for house in HOUSES
        for file in (ROOT / house).rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc") and "__pycache__" not in file.parts
        if not any(file in (ROOT / house).glob(pattern) for pattern in patterns.get(house, []))
    ]
    assert left_out == []
    assert all(resources.files(house).joinpath("py.typed").is_file() for house in HOUSES)
    assert "H200" in resources.files("roofline").joinpath("devices.toml").read_text(encoding="utf-8")


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_the_module_is_the_command():
    assert run(sys.executable, "-m", "profkit", "--version").stdout == f"profkit {__version__}\n"


def test_the_console_script_is_the_same_command():
    script = Path(sys.executable).with_name("profkit")
    if not script.exists():
        pytest.skip("profkit is not installed beside this interpreter")
    for line in (["--version"], ["--help"], ["nonsense"]):
        done, module = run(str(script), *line), run(sys.executable, "-m", "profkit", *line)
        ended = (module.returncode, module.stdout, module.stderr)
        assert (done.returncode, done.stdout, done.stderr) == ended


def test_the_installed_version_is_this_one():
    try:
        installed = importlib.metadata.version("profkit")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("profkit is not installed")
    assert installed == __version__


def test_a_known_good_version_is_pinned_for_every_dependency():
    pinned = {canonical(pin.name) for pin in pins()}
    assert {canonical(one.name) for one in requirements()} <= pinned


def test_what_is_pinned_is_in_the_declared_range():
    wanted = {canonical(one.name): one.specifier for one in requirements()}
    for pin in pins():
        (version,) = [Version(one.version) for one in pin.specifier]
        assert wanted.get(canonical(pin.name)) is None or version in wanted[canonical(pin.name)], pin


def python_tests() -> ModuleType:
    file = ROOT / "benchmarks" / "python_tests.py"
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_everything_that_runs_has_a_lower_bound_that_is_tested():
    """`python_tests.py --lowest` installs just these."""
    pinned = [Requirement(one) for one in python_tests().lower_bounds(PROJECT["project"])]
    optional = PROJECT["project"]["optional-dependencies"]
    lines = [
        *PROJECT["project"]["dependencies"],
        *(line for name in optional if name != "dev" for line in optional[name]),
    ]
    for wanted in map(Requirement, lines):
        (pin,) = [one for one in pinned if one.name == wanted.name]
        (low,) = [one.version for one in pin.specifier]
        assert f">={low}" in str(wanted.specifier).split(",")
        assert pin.marker == wanted.marker
    with pytest.raises(ValueError, match="numpy no lower bound"):
        python_tests().lower_bounds({"dependencies": ["numpy<3"], "optional-dependencies": {}})
    # What a machine that only reads installs is no older.
    reading = [Requirement(one) for one in (ROOT / "requirements-read.txt").read_text().splitlines() if one[0] != "#"]
    assert {str(one) for one in reading} <= {str(Requirement(one)) for one in PROJECT["project"]["dependencies"]}


def test_a_run_takes_the_place_of_the_one_before_with_the_same_python_and_dependencies():
    made = python_tests()
    row = ["3.13.0", made.NEWEST, "7", "1", "0", "0", "9", "2026-01-01", "abcdef1", "numpy 2"]
    low, ten = ["3.10.13", made.LOWEST, *row[2:]], ["3.10.13", made.NEWEST, *row[2:]]
    table = ""
    for one in (row, low, ten, [*row[:2], "8", "0", *row[4:]]):
        table = made.with_row(table, one)
    head, rule, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert (head, len(rule)) == (list(made.HEAD), len(head))
    assert rows == [ten, low, [*row[:2], "8", "0", *row[4:]]]


def test_an_error_is_a_failure_and_groups_are_no_part_of_a_name(tmp_path):
    made, report = python_tests(), tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite errors="1" failures="2" skipped="3" tests="10" /></testsuites>')
    assert made.counted(report) == {"passed": 4, "failed": 3, "skipped": 3}
    said = "FAILED tests/a.py::test_b[x-1]@test_a - AssertionError: 1 - 2\nERROR tests/c.py::test_d\nFAILED: no\n"
    assert made.failures(said) == ["tests/a.py::test_b[x-1]", "tests/c.py::test_d"]


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.13"])
def test_one_pin_a_package_and_python(python):
    names = [
        canonical(pin.name) for pin in pins() if pin.marker is None or pin.marker.evaluate({"python_version": python})
    ]
    assert len(names) == len(set(names))


def test_the_habits_are_there():
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "pip install" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_neither_a_clone_beside_a_script_nor_its_own_files_hide_a_package_silently(tmp_path):
    """`import profkit` found the folder of the clone, and analyzers.py the script's own in place of profkit's."""
    clone = tmp_path / "profkit"
    for house in HOUSES:
        shutil.copytree(ROOT / house, clone / house, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    build = "import sys; from setuptools.build_meta import build_editable; build_editable(sys.argv[1])"
    made = subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=clone, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        (path,) = [name for name in wheel.namelist() if name.endswith(".pth")]
        assert wheel.read(path).decode().strip() == str(clone)
    (tmp_path / "t.py").write_text("import profkit; profkit.annotate; profkit.compare", "utf-8")
    assert subprocess.run([sys.executable, "t.py"], cwd=tmp_path).returncode == 0
    (tmp_path / "analyzers.py").write_text("", "utf-8")
    said = subprocess.run([sys.executable, "t.py"], cwd=tmp_path, capture_output=True, text=True).stderr
    assert f"{tmp_path}/analyzers.py hides profkit's own package 'analyzers': rename it" in said
