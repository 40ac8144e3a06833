"""profkit kernelbench models: ask models for candidates, evaluate them, print the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from profkit.cli.options import fenced, measuring, request_of
from profkit.cli.progress import progress
from profkit.contests.kernelbench.files import write_json
from profkit.contests.kernelbench.models.config import read_config

_PATH = click.Path(path_type=Path)


@click.command("models")
@click.argument("config", type=_PATH)
@click.option("--no-eval", is_flag=True, help="Ask only.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@fenced()
@measuring
def models_(config: Path, no_eval: bool, as_json: bool, quiet: bool, **options: Any) -> int:
    """Ask the models of CONFIG (toml) for candidates, evaluate them, and print the table of models.

    Paths in CONFIG are relative to it. The key is read from the environment. Every prompt and answer is kept;
    started again, it asks only what has no answer yet.
    """
    from profkit.contests.kernelbench.models import arena  # pandas

    wanted = read_config(config)
    asked = arena.questions(wanted, config.resolve().parent)
    with progress(quiet) as now:
        arena.ask_all(wanted, asked, progress=now)
        if not no_eval:
            arena.evaluate_all(asked, request_of(**options), now)
    rows = arena.table(wanted, asked)
    document = {"schema": arena.SCHEMA, "level": wanted.task.level, "models": rows}
    write_json(asked[0].folder.parent / "models.json", document)
    click.echo(json.dumps(document, ensure_ascii=False, indent=1) if as_json else _models_table(rows))
    return 0 if any(row["answered"] for row in rows) else 1


def _models_table(rows: list[dict[str, Any]]) -> str:
    from profkit.report.layout import Table, terminal_table

    head = [
        "model",
        "asked",
        "answered",
        "compiled",
        "correct",
        "speed-up",
        "fast_1",
        "fast_2",
        "tokens in",
        "out",
        "cost",
        "why not",
    ]
    cells = [
        [
            r["model"],
            str(r["asked"]),
            str(r["answered"]),
            str(r["compiled"]),
            str(r["correct"]),
            "-" if r["geo_mean_speedup"] is None else f"{r['geo_mean_speedup']:.3g}x",
            f"{r['fast_1']:.3g}",
            f"{r['fast_2']:.3g}",
            *("-" if r[k] is None else str(r[k]) for k in ("prompt_tokens", "completion_tokens")),
            "-" if r["cost"] is None else f"{r['cost']:.4g}",
            "; ".join(f"{why[:60]} ({n})" for why, n in r["failures"].items()),
        ]
        for r in rows
    ]
    return terminal_table(Table(head, cells, (0, 3, 2, 2, 0, 0, 1, 1, 5, 5, 4, 0))).rstrip()
