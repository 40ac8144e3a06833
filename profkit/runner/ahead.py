"""Build a candidate's extensions before it is measured, where no GPU is seen; what fails here is not built again."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import torch

from profkit.launch.protocol import Job
from profkit.runner import loading, refused


def build(job: Job) -> int:
    """Import the job's one candidate, which builds what it builds then: 0 when it went well, else 1. One that has built nothing
    then, with a reference beside it, is constructed as well, for what it builds there; what goes wrong then is left to who
    measures it. Only for that the reference is imported, whose arguments it takes: that may take long, or do things.

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
        module = loading.import_file(file, subject.name)
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
