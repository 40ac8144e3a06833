"""profkit explain: why it is slow, what could be won, and what to try next."""

from __future__ import annotations

import json
from pathlib import Path

import click

from profkit.cli import options as shared
from profkit.cli.terminal import show
from profkit.errors import ProfkitError
from profkit.report import explain
from profkit.report import lines as source_lines
from profkit.report.dialects import agent
from profkit.report.messages import speaking
from profkit.report.names import short_name

LINES = "record them: profkit profile SAMPLE --lines"


@click.command("explain")
@click.argument("run", type=shared.PATH)
@click.option("--kernel", default="", metavar="NAME", help="Only kernels whose name contains NAME.")
@click.option("--lines", is_flag=True, help="The source lines that its kernels wait for.")
@shared.lang("Language of the text.")
@shared.json_
@shared.reader
def explain_(run: Path, kernel: str, lines: bool, lang: str, as_json: bool, reader: str | None) -> int:
    """Findings about the newest run at RUN or below, ranked by the time each could win at most.

    \b
    profkit explain profkit-runs/ICVXKH
    profkit explain profkit-runs/ICVXKH --kernel relu --json
    profkit explain profkit-runs/ICVXKH --lines

    A bound is the time now less what the roofline still demands after the fix. Rules whose counters are missing
    say so; `profkit profile SAMPLE --deep` collects them.
    """
    shared.one_form(as_json, reader)
    from profkit.study.study import open_study  # pandas stays out of start-up

    study = open_study(run)
    findings = study.findings(kernel)
    names = sorted({str(name) for name in study.kernels.get("kernel", ())})
    if kernel and not any(kernel in name for name in names):
        known = ", ".join(short_name(name, 40) for name in names[:6]) or "none: no counters in this run"
        raise ProfkitError(f"{study.path}: no kernel's name contains {kernel!r}", fix=f"kernels here: {known}")
    if reader is not None:
        click.echo(agent.document(study, findings))
    elif as_json:
        click.echo(json.dumps(explain.document(study, findings), ensure_ascii=False, allow_nan=False))
    elif lines:
        with speaking(lang):
            told = source_lines.text(study.lines, kernel=kernel)
        if not told:
            raise ProfkitError(f"{study.path}: no source lines in this run", fix=explain.runnable(LINES, study))
        show(told)
    else:
        with speaking(lang):
            show(explain.text(study, findings))
    return 0
