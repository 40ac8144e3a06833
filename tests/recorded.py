"""Runs recorded on GPUs, each opened once in a process: their studies compute each thing once, whoever asks.

Tests that use it are marked `pytest.mark.xdist_group("recorded")`, so that one process opens them.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from profkit.study.study import Study, open_study


@cache
def opened(path: Path) -> Study:
    """The study of a recorded run, to be read and never changed."""
    return open_study(path)


def some_slow(cases: Sequence[Any], keep: int) -> list[Any]:
    """Cases to parametrize with: `keep` of them, spread over all, are quick tests, the others slow ones."""
    quick = {round(number * (len(cases) - 1) / max(keep - 1, 1)) for number in range(min(keep, len(cases)))}
    return [
        case if number in quick else pytest.param(case, marks=pytest.mark.slow) for number, case in enumerate(cases)
    ]
