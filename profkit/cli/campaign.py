"""What a command does for a campaign before it has read what it is asked for."""

from __future__ import annotations

import click

from profkit.launch import warm
from profkit.launch.environment import environment, sharing


def begin(dask: str) -> None:
    """Of a campaign on this machine: the process that imports torch for all of it begins, while the command still imports
    what it needs itself. It ends with the command.
    """
    if not dask:
        click.get_current_context().with_resource(warm.runners(environment(sharing())))
