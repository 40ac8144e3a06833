"""One factory of jobs, one recorder per tool; also callable: `with profkit.record("step")`."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profkit.record.block import Block


class _Called(ModuleType):
    """This package and the public function of the same name."""

    def __call__(self, name: str, runs: str | os.PathLike[str] | None = None) -> Block:
        """`with profkit.record("step") as r: ...` records the block's GPU work as `r.run`."""
        from profkit.record.block import Block  # pandas stays out of start-up

        # Of the package above, by name: what shows a run is no business of this house.
        return Block(name, runs, sys.modules["profkit"].Run)


sys.modules[__name__].__class__ = _Called
