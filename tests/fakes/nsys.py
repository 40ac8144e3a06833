"""A stand-in for Nsight Systems: profile and export.

profile really starts its target and writes OUT.nsys-rep; export copies a SQLite file. Environment:

FAKE_NSYS_MODE     ok (default), partial (the importer complains), hang
FAKE_NSYS_DATA     a folder with the report.sqlite that is exported
FAKE_NSYS_VERSION  what --version answers, 2025.3.2.0
FAKE_NSYS_LOG      append each command line to this file, a JSON list a line
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

_VALUED = """
-t --trace -s --sample --cpuctxsw -f --force-overwrite -o --output --export -c --capture-range -p
--nvtx-capture --cuda-graph-trace --stats -e --env-var -x --stop-on-exit -w --show-output --cuda-memory-usage
--cudabacktrace -r --report --format --type --force-export -d
"""
VALUED = set(_VALUED.split())


def main(argv: list[str]) -> int:
    if os.environ.get("FAKE_NSYS_LOG"):
        with open(os.environ["FAKE_NSYS_LOG"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps(argv) + "\n")
    if argv[:1] == ["--version"]:
        version = os.environ.get("FAKE_NSYS_VERSION", "2025.3.2.0")
        sys.stdout.write(f"NVIDIA Nsight Systems version {version}-253200000000v0\n")
        return 0
    verbs = {"profile": profile, "export": export}
    if not argv or argv[0] not in verbs:
        sys.stderr.write(f"Unknown command: {' '.join(argv[:1])}\n")
        return 1
    return verbs[argv[0]](argv[1:])


def parse(rest: list[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    rest = list(rest)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        takes = not equals and name in VALUED
        options[name] = value if equals else rest.pop(0) if takes and rest else ""
    return options, rest


def profile(rest: list[str]) -> int:
    options, target = parse(rest)
    if os.environ.get("FAKE_NSYS_MODE") == "hang":
        time.sleep(3600)
    code = subprocess.run(target, check=False).returncode
    base = Path(options.get("-o") or options.get("--output") or "report1")
    base = base.with_suffix("") if base.suffix == ".nsys-rep" else base
    report = Path(f"{base}.nsys-rep")
    if report.exists() and options.get("-f", options.get("--force-overwrite")) != "true":
        sys.stderr.write(f"Error: {report} already exists.\n")
        return 1
    if os.environ.get("FAKE_NSYS_MODE") == "partial":
        sys.stdout.write("Importer error status: Importation succeeded with non-fatal errors.\n")
    report.write_bytes(b"fake nsys report\n")
    if options.get("--export") == "sqlite":
        export(["--type", "sqlite", "-o", f"{base}.sqlite", str(report)])
    return code


def export(rest: list[str]) -> int:
    options, files = parse(rest)
    folder = os.environ.get("FAKE_NSYS_DATA")
    out = options.get("-o") or options.get("--output") or str(Path(files[-1]).with_suffix(".sqlite"))
    if folder and Path(folder, "report.sqlite").exists():
        shutil.copyfile(Path(folder, "report.sqlite"), out)
    else:
        Path(out).write_bytes(b"SQLite format 3\0")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
