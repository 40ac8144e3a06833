"""Whether this Python with these dependencies reads, explains, compares and draws recorded runs, and to the same numbers.

    python benchmarks/python_versions.py >> docs/recorded/python_versions.txt

Needs no torch and no GPU: it is run once with every Python, and once with the oldest dependencies that are allowed. Prints
one line: versions, what failed, and a digest of all numbers of the recorded runs to ten digits.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import platform
import sys
import tempfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
READING = ("click", "jinja2", "matplotlib", "msgspec", "numpy", "pandas", "psutil", "rich")


def lines(folder: Path) -> list[list[str]]:
    """A command of every verb that reads."""
    run, other = "examples/h200/ICJTRP", "examples/h200/ICVXKH"
    made = str(folder / "made")
    return [
        ["import", "tests/data/ncu/h200_default.csv", "-o", made, "-q"],
        ["explain", made],
        ["explain", run, "--json"],
        ["explain", run, "--for", "agent"],
        ["report", made, "-o", str(folder / "page.html"), "--lang", "zh"],
        ["report", other, "--for", "pr", "-o", str(folder / "pr.md")],
        ["compare", f"{run}:ori", f"{run}:cuda", "-o", str(folder / "ladder.png")],
        ["roofline", made, "-o", str(folder / "roofline.svg")],
        ["gate", run, run, "-o", str(folder / "gate")],
        ["list", "--runs", str(folder)],
        ["history", "ICJTRP", "--runs", "examples/h200"],
        ["site", "tests/data/rules/runs", "-o", str(folder / "site")],
    ]


def failures() -> list[str]:
    """The verbs that did not end with 0."""
    from profkit.cli.group import invoke

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        return [" ".join(one[:2]) for one in lines(Path(folder)) if invoke(one) != 0]


def rounded(value: object) -> object:
    """Plain data with numbers to ten digits: sums may differ in the last bits."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return f"{value:.10g}" if isinstance(value, float) else value


def digest() -> str:
    """Of verdicts, findings and metrics of every recorded run."""
    from profkit.report import explain
    from profkit.report.derived import document
    from profkit.study.study import open_study

    found = hashlib.sha256()
    for file in sorted((ROOT / "examples").glob("h200/*/run.json")):
        study = open_study(file.parent)
        both = [document(study), explain.document(study, study.findings())]
        plain = json.loads(json.dumps(both, default=str).replace(str(ROOT), ""))
        found.update(json.dumps(rounded(plain), sort_keys=True).encode())
    return found.hexdigest()[:12]


def main() -> int:
    with contextlib.chdir(ROOT) if sys.version_info >= (3, 11) else contextlib.nullcontext():
        failed, same = failures(), digest()
    known = ", ".join(f"{name} {metadata.version(name)}" for name in READING)
    said = f"failed: {', '.join(failed)}" if failed else "13 verbs read"
    print(f"Python {platform.python_version()}: {said}, numbers {same}; {known}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
