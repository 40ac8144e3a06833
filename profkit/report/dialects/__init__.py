"""All report dialects by their `--for` name."""

from __future__ import annotations

from profkit.report.dialect import Dialect
from profkit.report.dialects import agent, html, paddle, pr, records, tensorrt

DIALECTS: dict[str, Dialect] = {
    one.name: one
    for one in (
        agent.DIALECT,
        pr.DIALECT,
        paddle.DIALECT,
        tensorrt.DIALECT,
        records.DIALECT,
        html.DIALECT,
    )
}
