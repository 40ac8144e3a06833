"""Build a candidate's extensions before it is measured, where no GPU is seen; what fails here is not built again."""

from __future__ import annotations

import functools
import os
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from profkit.guest.build import loading, refused
from profkit.launch.protocol import Job


def build(job: Job) -> int:
    """Import the job's one candidate, which builds what it builds then: 0 when it went well, else 1. One that has built nothing
    then, with a reference beside it, is constructed as well, for what it builds there; what goes wrong then is left to who
    measures it. Only for that the reference is imported, whose arguments it takes: that may take long, or do things.

    Where it will be measured on a GPU it is told that there is one, of the kind that is built for: many a constructor asks before
    it builds. What goes on to use it fails, after its build.

    A compiler's error is kept for the processes of this campaign that measure the candidate; any other, such as that of
    a candidate that asks for the GPU while it is imported, is left to them.
    """
    subject = job.subjects[0]
    file, cache = Path(subject.file), Path(job.cache)
    if job.lines:
        loading.with_line_tables()
    # Before the import, which may change what a build's identity is made of.
    key = loading.build_key(file)
    loading.use(loading.BuildLock(cache, key, wait=True))
    built = refused.extensions(file, job.campaign)
    try:
        module = _imported(file, subject.name, built, gpu=job.device == "cuda")
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        if loading.is_compile_error(error):
            refused.remember(file, cache, key, job.campaign, error)
        return 1
    if len(job.subjects) > 1 and not built and "cpp_extension" in file.read_text("utf-8", "replace"):
        try:
            told = loading.import_file(Path(job.subjects[1].file), "reference").get_init_inputs()
            loading.instance(module, "ModelNew", told, 0, torch.device("cpu"))
        except (Exception, SystemExit) as error:
            traceback.print_exception(error, file=sys.stderr)
    return 0


def _imported(file: Path, name: str, built: Mapping[str, str], *, gpu: bool) -> ModuleType:
    """The candidate's module; once more without the pretence where that is not what it can be imported with."""
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
    """Say that there is a GPU of the architecture that is built for; what was said before, by name."""
    found = re.match(r"(\d+)\.(\d)", os.environ.get("TORCH_CUDA_ARCH_LIST", ""))
    said: dict[str, Any] = {"is_available": True, "device_count": 1, "current_device": 0}
    if found:
        said["get_device_capability"] = int(found[1]), int(found[2])
    was = {name: getattr(torch.cuda, name) for name in said}
    vars(torch.cuda).update({name: functools.partial(_saying, value) for name, value in said.items()})
    return was


def _saying(value: Any, *_: Any, **__: Any) -> Any:
    return value
