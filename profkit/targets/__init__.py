"""Targets to measure. Roles are found by parsing the source, never by importing it."""

from __future__ import annotations

from profkit.targets.sample import Sample, find_samples, is_sample, resolve

__all__ = ["Sample", "find_samples", "is_sample", "resolve"]
