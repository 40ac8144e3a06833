"""Build a candidate's extensions before it is measured, without a GPU; failures are kept."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from profkit.guest.build import extensions, loading
from profkit.launch.protocol import Job


def build(job: Job) -> int:
    """Import the job's one candidate to build its extensions; 0 on success, else 1.

    If the import built nothing, the candidate is also constructed, with the reference's arguments. For a GPU build
    torch pretends to have a GPU, because many constructors check first. Compiler errors are kept for the campaign;
    other errors are left to the measurement.
    """
    file = Path(job.subjects[0].file)
    if job.lines:
        loading.with_line_tables()
    built = extensions.followed(file, job.campaign)
    # Named before the import, which may change what a build's identity is made of.
    with loading.BuildLock(file, Path(job.cache)):
        return _built(job, file, built)


def _built(job: Job, file: Path, built: Mapping[str, str]) -> int:
    try:
        module = _imported(file, job.subjects[0].name, built, gpu=job.device == "cuda")
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        return 1
    if len(job.subjects) > 1 and not built and "cpp_extension" in file.read_text("utf-8", "replace"):
        try:
            init = loading.import_file(Path(job.subjects[1].file), "reference").get_init_inputs()
            loading.instance(module, "ModelNew", init, 0, torch.device("cpu"))
        except (Exception, SystemExit) as error:
            traceback.print_exception(error, file=sys.stderr)
    return 0


def _imported(file: Path, name: str, built: Mapping[str, str], *, gpu: bool) -> ModuleType:
    """The candidate's module; imported without a pretended GPU if that fails."""
    if not gpu:
        return loading.import_file(file, name)
    was = _pretend()
    try:
        return loading.import_file(file, name)
    except Exception as error:
        if built or loading.is_compile_error(error):
            raise
        vars(torch.cuda).update(was)
        return loading.import_file(file, name)


def _pretend() -> dict[str, Any]:
    """Pretend to have a GPU of the architecture to build for; returns the replaced attributes."""
    found = re.match(r"(\d+)\.(\d)", os.environ.get("TORCH_CUDA_ARCH_LIST", ""))
    said: dict[str, Any] = {"is_available": True, "device_count": 1, "current_device": 0}
    if found:
        said["get_device_capability"] = int(found[1]), int(found[2])
    was = {name: getattr(torch.cuda, name) for name in said}
    vars(torch.cuda).update({name: lambda *_, told=value: told for name, value in said.items()})
    return was
