"""One candidate under KernelBench's own evaluator, in a process of its own, which `ask` starts.

    python benchmarks/kernelbench_official.py CHECKOUT JOB.json RESULT.json

Nothing of the evaluator is changed. Packages it imports at the top but does not need to evaluate (for asking models)
are replaced by empty modules where they are not installed.
"""

from __future__ import annotations

import copy
import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

UNNEEDED = {
    "dotenv": "load_dotenv",
    "openai": "OpenAI",
    "litellm": "completion",
    "requests": "get",
    "tqdm": "tqdm",
}


class Record:
    """What the evaluator needs of pydantic's BaseModel: fields with defaults, given by keyword."""

    def __init__(self, **fields: Any) -> None:
        for name in type(self).__annotations__:
            setattr(self, name, fields.get(name, copy.deepcopy(getattr(type(self), name, None))))


def stand_in() -> list[str]:
    """Put empty modules in the place of the packages that are missing; their names."""
    wanted: dict[str, dict[str, Any]] = {
        name: {attribute: lambda *_, **__: None} for name, attribute in UNNEEDED.items()
    }
    wanted["pydantic"] = {"BaseModel": Record}
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    for name in missing:
        module = ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        vars(module).update(wanted[name])
        sys.modules[name] = module
    return missing


def evaluate(job: dict[str, Any]) -> dict[str, Any]:
    """The official result, the official baseline of the same process, and what went wrong."""
    import torch
    from kernelbench.eval import eval_kernel_against_ref
    from kernelbench.timing import measure_ref_program_time

    device = torch.device("cuda:0")
    base = None
    if job.get("baseline", True):
        base = measure_ref_program_time(
            job["name"], job["reference"], num_trials=job["perf_trials"], device=device, precision="fp32"
        )
    found: dict[str, Any] = {"baseline": base, "metadata": {}}
    try:
        result = eval_kernel_against_ref(
            job["reference"],
            job["candidate"],
            num_correct_trials=job["trials"],
            num_perf_trials=job["perf_trials"],
            measure_performance=True,
            device=device,
            backend=job["backend"],
            precision=torch.float32,
        )
    except Exception as error:
        traceback.print_exc()
        return found | {"compiled": None, "correct": None, "raised": f"{type(error).__name__}: {error}"[:300]}
    if result is None:
        return found | {"compiled": None, "correct": None, "raised": "no result (lock file)"}
    return found | {
        "compiled": result.compiled,
        "correct": result.correctness,
        "runtime": result.runtime,
        "reference": result.ref_runtime,
        "metadata": {key: str(value)[:300] for key, value in result.metadata.items()},
    }


def ask(
    checkout: Path, job: Mapping[str, Any], scratch: Path, limit: float, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What `evaluate` gives in a process of its own; `raised` says what ended it without a verdict. limit [s]."""
    place, out, log = (scratch / name for name in ("job.json", "official.json", "official.log"))
    out.unlink(missing_ok=True)
    place.write_text(json.dumps(job), "utf-8")
    argv = [sys.executable, __file__, str(checkout), str(place), str(out)]
    found = {"compiled": None, "correct": None, "metadata": {}}
    with log.open("w") as stream:
        try:
            ended = subprocess.run(argv, stdout=stream, stderr=stream, env=env, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return found | {"raised": f"no end after {limit:g} s"}
    if not out.exists():
        tail = log.read_text("utf-8", "replace").strip().splitlines()[-1:]
        return found | {"raised": f"exit code {ended.returncode}: {tail}"}
    return json.loads(out.read_text("utf-8"))


def main() -> None:
    checkout, job, out = (Path(argument) for argument in sys.argv[1:4])
    sys.path.insert(0, str(checkout / "src"))
    missing = stand_in()
    found = evaluate(json.loads(job.read_text("utf-8")))
    out.write_text(json.dumps(found | {"stood_in_for": missing}), "utf-8")


if __name__ == "__main__":
    main()
