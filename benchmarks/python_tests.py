"""The quick tests on another Python, with the versions of constraints.txt or the oldest that pyproject.toml allows.

    python benchmarks/python_tests.py --python python3.13
    python benchmarks/python_tests.py --python python3.10 --lowest
    python benchmarks/python_tests.py --python python3.10 --lowest --venv DIR      keep the environment, or use one that is there

Makes an environment, installs profkit with every extra that tests use, and runs what `make test` runs; what failed beside
others is run once more, alone. The line of this run goes into docs/recorded/python_tests.txt in place of the one with the
same Python and dependencies. Exit code: pytest's.

A line names a commit, so the tree must be one. Takes minutes and, where the index has no CPU build of torch for that
Python, 3 to 6 GB of disk.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "docs" / "recorded" / "python_tests.txt"
NEWEST, LOWEST = "constraints.txt", "lower bounds"
NAMED = ("torch", "numpy", "pandas", "matplotlib", "msgspec", "pyarrow", "pytest")
HEAD = ("Python", "dependencies", "passed", "failed", "passed alone", "skipped", "s", "date", "commit", "versions")
# Without what checks the code and does not run it.
NOT_TESTED = {"dev"}
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?:@[\w-]+)?(?: - .*)?$", re.M)


def project() -> dict[str, Any]:
    """The table of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def extras(table: Mapping[str, Any]) -> list[str]:
    """The extras that tests use."""
    return [name for name in table["optional-dependencies"] if name not in NOT_TESTED]


def lower_bounds(table: Mapping[str, Any]) -> list[str]:
    """A pin of every dependency at its lower bound. Raises ValueError for one without."""
    optional = table["optional-dependencies"]
    lines = [*table["dependencies"], *(line for name in extras(table) for line in optional[name])]
    pins = []
    for requirement in map(Requirement, lines):
        low = [one.version for one in requirement.specifier if one.operator == ">="]
        if not low:
            raise ValueError(
                f"pyproject.toml gives {requirement.name} no lower bound: write {requirement.name}>=VERSION"
            )
        marker = f"; {requirement.marker}" if requirement.marker else ""
        pins.append(f"{requirement.name}=={low[0]}{marker}")
    return sorted(set(pins))


def counted(report: Path) -> dict[str, int]:
    """Passed, failed, skipped, of pytest's JUnit report; an error is a failure."""
    suite = next(ET.parse(report).getroot().iter("testsuite"))
    failed, skipped = int(suite.attrib["failures"]) + int(suite.attrib["errors"]), int(suite.attrib["skipped"])
    return {"passed": int(suite.attrib["tests"]) - failed - skipped, "failed": failed, "skipped": skipped}


def failures(said: str) -> list[str]:
    """The tests that pytest's last lines name, without the group that pytest-xdist writes behind a name."""
    return sorted(set(_FAILED.findall(said)))


def with_row(recorded: str, row: Sequence[str]) -> str:
    """A table with this row in place of the one with the same Python and dependencies, in the order of Pythons."""
    kept = [[cell.strip() for cell in line.strip("|").split("|")] for line in recorded.splitlines()[2:]]
    rows = [one for one in kept if one[:2] != list(row[:2])] + [list(row)]
    rows.sort(key=lambda one: ([int(part) for part in re.findall(r"\d+", one[0])], one[1]))
    numbers = {"passed", "failed", "passed alone", "skipped", "s"}
    rule = ["---:" if name in numbers else "---" for name in HEAD]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (HEAD, rule, *rows)) + "\n"


def made(venv: Path, python: str, lowest: bool) -> Path:
    """The interpreter of an environment with profkit and its dependencies."""
    inside = venv / "bin" / "python"
    if not inside.exists():
        subprocess.run([python, "-m", "venv", str(venv)], check=True)
    limits = venv / "constraints.txt"
    pinned = "\n".join(lower_bounds(project())) + "\n" if lowest else (ROOT / "constraints.txt").read_text("utf-8")
    limits.write_text(pinned, "utf-8")
    wanted = f".[{','.join(extras(project()))}]"
    install = [str(inside), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    subprocess.run([*install, "-c", str(limits), "-e", wanted], check=True, cwd=ROOT)
    return inside


def tested(python: Path, more: Sequence[str]) -> tuple[dict[str, int], int]:
    """What the quick tests gave, and the exit code of the last pytest that ran."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONUTF8": "1", "PROFKIT_CACHE": f"{folder}/cache"}
        env["PATH"] = os.pathsep.join([str(python.parent), env["PATH"]])
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        quick = [str(python), "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow and not gpu", *more]

        def run(name: str, *arguments: str) -> tuple[str, int]:
            command = [*quick, *arguments, "--junitxml", f"{folder}/{name}.xml"]
            with subprocess.Popen(command, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE) as pytest:
                assert pytest.stdout is not None
                said = []
                for line in pytest.stdout:
                    print(line, end="", flush=True)
                    said.append(line)
            return "".join(said), pytest.returncode

        said, code = run("all", "-n", "2")
        found = {**counted(Path(folder, "all.xml")), "passed alone": 0}
        if failed := failures(said):
            _, code = run("alone", "-n", "0", *failed)
            found["passed alone"] = counted(Path(folder, "alone.xml"))["passed"]
        return found, code


def versions(python: Path) -> tuple[str, str]:
    """Of the Python, and of what a reader asks about first."""
    script = (
        "import json, platform; from importlib.metadata import version; "
        f"print(json.dumps([platform.python_version(), {{n: version(n) for n in {NAMED}}}]))"
    )
    said, known = json.loads(subprocess.run([python, "-c", script], check=True, capture_output=True).stdout)
    return said, ", ".join(f"{name} {value}" for name, value in known.items())


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def record(python: Path, lowest: bool, found: Mapping[str, int], seconds: float, commit: str) -> None:
    """Write the line of this run."""
    said, known = versions(python)
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    told = {name: str(number) for name, number in found.items()}
    told |= {"Python": said, "dependencies": LOWEST if lowest else NEWEST, "s": f"{seconds:.0f}"}
    told |= {"date": today, "commit": commit, "versions": known}
    gpu = "a GPU" if shutil.which("nvidia-smi") else "no GPU"
    head = {
        "command": "python benchmarks/python_tests.py --python PYTHON [--lowest], once a line",
        "date": today,
        "commit": commit,
        "machine": f"{platform.system()}, {platform.machine()}, {os.cpu_count()} cores, {gpu}",
        "versions": "as each line says",
    }
    before = RECORDED.read_text("utf-8").partition("\n\n")[2] if RECORDED.exists() else ""
    body = with_row(before, [told[name] for name in HEAD])
    RECORDED.write_text("".join(f"# {key}: {value}\n" for key, value in head.items()) + "\n" + body, "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that the environment is made of")
    parser.add_argument("--lowest", action="store_true", help="every dependency at its lower bound")
    parser.add_argument("--venv", type=Path, help="an environment to make or to use; else a temporary one")
    parser.add_argument("more", nargs="*", help="for pytest, after `--`; the run is then not recorded")
    asked = parser.parse_args()
    changed = [line for line in git("status", "--porcelain", "-uno").splitlines() if "docs/" not in line]
    if changed and not asked.more:
        parser.error(f"commit first, a line names one: {', '.join(line.split()[-1] for line in changed)}")
    commit = git("rev-parse", "--short", "HEAD")
    with tempfile.TemporaryDirectory() as folder:
        python = made((asked.venv or Path(folder)).absolute(), asked.python, asked.lowest)
        started = datetime.datetime.now(datetime.timezone.utc)
        found, code = tested(python, asked.more)
        seconds = (datetime.datetime.now(datetime.timezone.utc) - started).total_seconds()
        if not asked.more:
            record(python, asked.lowest, found, seconds, commit)
    return code


if __name__ == "__main__":
    sys.exit(main())
