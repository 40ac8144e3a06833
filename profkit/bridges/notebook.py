"""%%profkit: record a cell's GPU work. `%load_ext profkit` installs it."""

from __future__ import annotations

import shlex
from typing import Any

from profkit.api import Run, Text
from profkit.errors import CannotProfileError, ProfkitError
from profkit.record.block import Block
from roofline import units


def load(shell: Any) -> None:
    """Register the cell magic %%profkit [NAME], and the picture of a Figure in IPython."""
    from IPython.core.pylabtools import select_figure_formats

    def profkit(line: str, cell: str) -> Any:
        """%%profkit [NAME]: run the cell, record it, show the run, keep it in `_profkit`."""
        words = shlex.split(line)
        if len(words) > 1 or line.startswith("-"):
            raise ProfkitError(f"%%profkit takes only a name, not {line!r}", fix="%%profkit step")
        with Block(words[0] if words else "cell", None, Run) as block:
            done = shell.run_cell(cell)
        if not done.success:
            return None
        shell.user_ns["_profkit"] = block
        try:
            return block.run
        except CannotProfileError as error:
            return Text(f"{units.text(block.seconds, 's')} of wall time; {error} ({error.fix})")

    select_figure_formats(shell, {"png"})
    shell.register_magic_function(profkit, "cell", "profkit")
