"""Tools that need torch: tracing a program, changed conditions, ceilings, builds ahead."""

from profkit import errors as errors  # it says first which file of a program's hides a package of ours
