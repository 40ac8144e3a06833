"""profkit mcp: the server of the Model Context Protocol, on stdin and stdout."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli.options import Amount


@click.command("mcp", short_help="Serve tools over MCP.")
@click.option(
    "--root",
    "roots",
    multiple=True,
    default=(Path("."),),
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder that paths may lie in; repeatable, the first is where relative ones begin. Default: here.",
)
@click.option("--seconds", default=600.0, show_default=True, type=Amount(1), help="One measurement at most.")
def command(roots: tuple[Path, ...], seconds: float) -> int:
    """Serve profile, explain, compare, lines, ceilings and next to a client, on stdin and stdout.

    \b
    profkit mcp --root ~/kernels

    Paths outside of the roots are refused; nothing runs that a client did not ask for. Needs the extra mcp.
    """
    from profkit.bridges.mcp import server  # pandas

    server(roots, seconds).run()
    return 0
