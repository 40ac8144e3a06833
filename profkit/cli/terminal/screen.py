"""Terminal output: colour unless switched off, lines that fit; a pipe gets the text as is."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from profkit.report.layout import on_screen

HELP = "No colour on a terminal either, nothing redrawn; so does NO_COLOR in the environment."


def _off(context: click.Context, _param: click.Parameter, given: bool) -> None:
    """Switch colour off for this verb and its parents."""
    one: click.Context | None = context if given else None
    while one is not None:
        one.color = False
        one = one.parent


def plain() -> click.Option:
    """--plain, wherever on the command line it stands."""
    return click.Option(["--plain"], is_flag=True, expose_value=False, callback=_off, help=HELP)


def with_plain(command: click.Command) -> click.Command:
    """The command taking --plain, and so every command below it."""
    if not any("--plain" in param.opts for param in command.params):
        command.params.append(plain())
    if isinstance(command, click.Group):
        for one in command.commands.values():
            with_plain(one)
    return command


def settle(context: click.Context) -> None:
    """Colour by NO_COLOR, FORCE_COLOR and TERM; else where a terminal is."""
    if os.environ.get("NO_COLOR"):
        context.color = False
    elif context.color is None and os.environ.get("FORCE_COLOR"):
        context.color = True
    elif os.environ.get("TERM") == "dumb":
        context.color = False


def redrawn() -> bool:
    """Whether standard error is a terminal on which lines may be drawn again and again."""
    context = click.get_current_context(silent=True)
    allowed = context is None or context.color is not False
    return allowed and sys.stderr.isatty()


def show(text: str, **how: Any) -> None:
    """click.echo, prose folded to the width of a terminal; tables fit it already."""
    click.echo(on_screen(text), **how)
