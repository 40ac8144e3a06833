"""A stand-in for compute-sanitizer: the same command line, logs in the form that its manual gives.

It does not start its target, which would need a GPU: it says in the runner's place that the candidate was called.

FAKE_SANITIZER_MODE  found (default): the log of the tool that was asked for; or the name of a log in
                     tests/data/sanitizer: clean, unsupported, untracked, cut; silent: no log at all;
                     died: the log of memcheck, and the target ends in the call as it does without its context
FAKE_SANITIZER_LOG   append each command line to this file, a JSON list a line
"""

import json
import os
import shutil
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data" / "sanitizer"
_VALUED = """
--tool --target-processes --print-limit --show-backtrace --launch-timeout --log-file --report-api-errors
--racecheck-report
"""
VALUED = set(_VALUED.split())
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def main(argv: list[str]) -> int:
    if argv == ["--version"]:
        print("NVIDIA (R) Compute Sanitizer\nCopyright (c) 2020-2025 NVIDIA Corporation\nVersion 2025.3.0.0 (build 1)")
        return 0
    options: dict[str, str] = {}
    while argv and argv[0].startswith("--"):
        if argv[0] not in VALUED:
            print(f"========= Error: unrecognized option '{argv[0]}'")
            return 1
        options[argv[0]], argv = argv[1], argv[2:]
    if os.environ.get("FAKE_SANITIZER_LOG"):
        with open(os.environ["FAKE_SANITIZER_LOG"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps([options, argv, os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING")]) + "\n")
    tool = options.get("--tool", "memcheck")
    if tool not in TOOLS:
        print(f"========= Error: Invalid tool {tool}")
        return 1
    mode = os.environ.get("FAKE_SANITIZER_MODE", "found")
    job, events = argv[-2:]
    name = json.loads(Path(job).read_text(encoding="utf-8"))["subjects"][-1]["name"]
    told = [{"kind": "phase", "impl": name, "phase": "sanitize", "limit": 60.0}]
    if mode == "died":
        told += [{"kind": "corrupt", "impl": name, "data": {"reason": "CUDA error: unspecified launch failure"}}]
    else:
        told += [{"kind": "impl", "impl": name, "data": {"status": "counted"}}, {"kind": "done"}]
    with open(events, "a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(event) + "\n" for event in told)
    if mode != "silent":
        name = {"found": tool, "died": "memcheck"}.get(mode, mode)
        shutil.copy(DATA / f"{name}.log", options["--log-file"])
    return int(mode == "died")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
