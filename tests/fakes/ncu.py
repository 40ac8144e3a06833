"""A stand-in for Nsight Compute: the same command line, the same words, exports recorded on an H200.

It really starts its target, then writes what ncu would have written. With --kill yes it ends the target after a
moment, if the recording has as many launches as --launch-count. Environment:

FAKE_NCU_MODE     ok (default), permission, stub: counters refused in ncu's words;
                  no_kernels; app_error; segv; unknown_metric; truncated; garbage; empty; hang
FAKE_NCU_TARGET   run (default), or skip: do not start the target; say "done" in its place when it is a runner
FAKE_NCU_VERSION  what --version answers, 2025.3.1.0
FAKE_NCU_PAGE     the recorded source page that --import gives, source_cuda.csv
FAKE_NCU_LOG      append each command line to this file, a JSON list a line
"""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data" / "ncu"

_VALUED = """
--cache-control --clock-control --config-file --graph-profiling --import --import-source --kernel-id --kill
--kernel-name --kernel-name-base --launch-count --launch-skip --log-file --metrics --nvtx-exclude
--nvtx-include --page --profile-from-start --pm-sampling-interval --print-details --print-metric-name
--print-source --print-summary --print-units --replay-mode --section --set --target-processes --export -c -i -k
-o -s
"""
VALUED = set(_VALUED.split())
FLAGS = {"--csv", "--disable-extra-suffixes", "--force-overwrite", "--nvtx", "--quiet", "--version", "-f"}

NOTE = (
    "==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, profiling results may be "
    "inconsistent."
)
NO_KERNELS = "==WARNING== No kernels were profiled."
REFUSALS = {
    "permission": (
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on "
        "the target device 0. For instructions on enabling permissions and to get more information see "
        "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
    ),
    "stub": "==ERROR== Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] on path?).",
}
EXPORTS = {
    "app_error": ("h200_exit3.csv", 3),
    "segv": ("h200_segv.csv", 11),
    "unknown_metric": ("h200_unknown_metric.csv", 0),
    "no_kernels": ("h200_no_kernels.csv", 0),
}
RANGE = "{name}:none:none:RGB:0xff:REGISTERED:{name}"


class Usage(Exception):
    """A command line that ncu refuses."""


def main(argv: list[str]) -> int:
    if os.environ.get("FAKE_NCU_LOG"):
        note_to(os.environ["FAKE_NCU_LOG"], json.dumps(argv))
    try:
        options, target = parse(argv)
    except Usage as error:
        sys.stdout.write(f"==ERROR== {error}\n")
        return 1
    if "--version" in options:
        version = os.environ.get("FAKE_NCU_VERSION", "2025.3.1.0")
        sys.stdout.write(
            f"NVIDIA (R) Nsight Compute Command Line Profiler\nVersion {version} (build 1) (public-release)\n"
        )
        return 0
    mode = os.environ.get("FAKE_NCU_MODE", "ok")
    if "--import" in options:
        return page(options)
    if mode == "hang":
        hang(target)
    text, forced = export(mode, options, target)
    wanted = int((options.get("--launch-count") or options.get("-c") or ["0"])[-1])
    reached = 0 < wanted <= sum(line.startswith('"') for line in text.splitlines()) - 2
    text = cut(text, wanted) if reached else text
    code = start(target, kill=reached and options.get("--kill", ["no"])[-1] == "yes")
    if code and mode in ("ok", "truncated"):
        noise, quote, table = text.partition('"ID"')
        text = f"{noise}==ERROR== The application returned an error code ({code}).\n{quote}{table}"
    write(mode, options, text)
    if any(name in options for name in ("-o", "--export")) and mode == "ok":
        base = (options.get("-o") or options["--export"])[-1]
        Path(base if base.endswith(".ncu-rep") else base + ".ncu-rep").write_bytes(b"NVR\0fake report\n")
    return forced or code


def page(options: dict[str, list[str]]) -> int:
    """The source page of a report, as recorded."""
    if not Path(options["--import"][-1]).exists():
        sys.stdout.write("==ERROR== Failed to find report file.\n")
        return 1
    shutil.copyfile(DATA / os.environ.get("FAKE_NCU_PAGE", "source_cuda.csv"), options["--log-file"][-1])
    return 0


def parse(argv: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """(options, target); raises Usage as ncu's own checks do."""
    options: dict[str, list[str]] = {}
    rest = list(argv)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        if name in FLAGS:
            options.setdefault(name, [])
        elif name not in VALUED:
            raise Usage(f"unrecognised option '{name}'. Use --help for further details.")
        elif equals:
            options.setdefault(name, []).append(value)
        elif rest:
            options.setdefault(name, []).append(rest.pop(0))
        else:
            raise Usage(f"the required argument for option '{name}' is missing. Use --help for further details.")
    if "--version" in options:
        return options, rest
    if "--nvtx-include" in options and "--nvtx" not in options:
        raise Usage("--nvtx-include requires --nvtx")
    if "--import" in options:
        return options, rest
    if not rest:
        raise Usage("No application to profile. Use --help for further details.")
    report = (options.get("-o") or options.get("--export") or [""])[-1]
    if report and Path(report + ".ncu-rep").exists() and not {"-f", "--force-overwrite"} & options.keys():
        raise Usage(f"File {report}.ncu-rep already exists. Use --force-overwrite to overwrite it.")
    return options, rest


def cut(text: str, launches: int) -> str:
    """The export with its header, its units and so many launches."""
    table = [line for line in text.splitlines(keepends=True) if line.startswith('"')]
    noise = "".join(line for line in text.splitlines(keepends=True) if not line.startswith('"'))
    return noise + "".join(table[: launches + 2])


def start(target: list[str], *, kill: bool = False) -> int:
    """Run the target and give its exit code; a signal counts as its number, as ncu does."""
    if os.environ.get("FAKE_NCU_TARGET") == "skip":
        if job_of(target) is not None:
            note_to(target[-1], '{"kind":"done"}')
        return 0
    child = subprocess.Popen(target)
    if kill:
        try:
            return abs(child.wait(timeout=1.0))
        except subprocess.TimeoutExpired:
            child.kill()
    return abs(child.wait())


def export(mode: str, options: dict[str, list[str]], target: list[str]) -> tuple[str, int]:
    """What goes into the log file, and the exit code that overrides the target's (0: none does)."""
    head = f"{NOTE}\n==PROF== Connected to process {os.getpid()} ({sys.executable})\n"
    tail = f"==PROF== Disconnected from process {os.getpid()}\n"
    if mode == "stub":
        return f"{REFUSALS[mode]}\n", 1
    if mode in REFUSALS:
        return f"{head}{REFUSALS[mode]}\n{tail}{NO_KERNELS}\n", 0
    if mode == "empty":
        return head + tail, 0
    if mode == "garbage":
        return "\0\x01\x02 not what anybody asked for \ufffd\n" * 50, 0
    name, code = EXPORTS.get(mode, ("h200_default.csv", 0))
    text = rewrite((DATA / name).read_text(encoding="utf-8"), options, target)
    if mode == "truncated":
        cut = len(text) - len(text.splitlines()[-1]) // 2
        return text[:cut], 0
    return text, code


def rewrite(text: str, options: dict[str, list[str]], target: list[str]) -> str:
    """The recorded export as if this job had been recorded: its sample, its implementations, renumbered.

    The recording's reference launches become those of the job's first subject; every other subject gets a
    copy of its candidate launches. Without NVTX filter and job, the ranges are empty.
    """
    job = job_of(target)
    noise, header, lines = split(text)
    if (job is None and "--nvtx-include" in options) or not header:
        return text
    table = list(csv.reader(io.StringIO("".join(lines))))
    units, launches = table[0], table[1:]
    column = next(i for i, name in enumerate(header) if "Push/Pop_Range" in name)
    if job is None:
        rows = [[*row[:column], "", *row[column + 1 :]] for row in launches]
    else:
        rows = []
        for subject in job["subjects"]:
            role = "reference" if subject["role"] == "reference" else "candidate"
            rows += [
                relabel(row, column, job["sample"], subject["name"]) for row in launches if f":{role}:" in row[column]
            ]
    numbered = [[str(number), *row[1:]] for number, row in enumerate(rows)]
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([header, units, *numbered])
    return noise + out.getvalue()


def relabel(row: list[str], column: int, sample: str, impl: str) -> list[str]:
    """The row with its three nested ranges named sample, implementation, counters."""
    thread = re.match(r"\d*", row[column])[0]
    ranges = "  ".join(f'"profkit:{RANGE.format(name=name)}"' for name in (sample, impl, "counters"))
    return [*row[:column], f"{thread}  {ranges} ", *row[column + 1 :]]


def split(text: str) -> tuple[str, list[str], list[str]]:
    """(ncu's own lines, header fields, the table's other lines)."""
    lines = text.splitlines(keepends=True)
    noise = "".join(line for line in lines if not line.startswith('"'))
    table = [line for line in lines if line.startswith('"')]
    return noise, next(csv.reader(table[:1]), []), table[1:]


def job_of(target: list[str]) -> dict | None:
    """The job file of profkit's runner, when that is what the target runs."""
    if "profkit.judge" not in target:
        return None
    file = Path(target[target.index("profkit.judge") + 1])
    # A runner that is started ahead waits for it.
    while not file.exists():
        time.sleep(0.02)
    return json.loads(file.read_text(encoding="utf-8"))


def write(mode: str, options: dict[str, list[str]], text: str) -> None:
    # Only the driver's connection failure ignores the log file.
    if mode == "stub":
        sys.stderr.write(text)
    elif "--log-file" in options:
        Path(options["--log-file"][-1]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


def hang(target: list[str]) -> None:
    """Never end, as when the first call under ncu does not return, with a child that does not either."""
    job = job_of(target)
    if job is not None:
        event = {"kind": "phase", "impl": job["subjects"][0]["name"], "phase": "count"}
        note_to(target[-1], json.dumps({**event, "limit": job.get("limits", {}).get("count", 120.0)}))
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
    while True:
        time.sleep(60)


def note_to(path: str, line: str) -> None:
    with open(path, "a", encoding="utf-8") as stream:
        stream.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
