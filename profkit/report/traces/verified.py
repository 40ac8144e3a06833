"""What a change won in a program, beside what the ledger had predicted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from analyzers.ledger.ledger import LATE, SCHEMA, Ledger
from analyzers.records import plain
from collectors.operations import parsed
from profkit.errors import ProfkitError
from profkit.record.verify import Verified
from profkit.report import units
from profkit.report.messages import named, say

Rows = Sequence[Mapping[str, Any]]


def predicting(
    source: Path, opened: Callable[[Path], Ledger], change: Path, name: str
) -> tuple[Mapping[str, Any], Rows]:
    """(data of a ledger, its rows that a change is for). Raises ProfkitError where none is predicted to win."""
    written = source.suffix == ".json" and SCHEMA in source.read_text("utf-8")[:99]
    told = json.loads(source.read_text("utf-8")) if written else json.loads(opened(source).data)
    idle = {"name": "idle", "shapes": "", "op": "", "advice": LATE, "wins": [0.0, told["queued"]]}
    rows = [one for one in [*told["rows"], idle] if one["wins"][1] is not None]
    if change.suffix == ".py":
        whose = re.search(r'^OPERATION, PLACES = "([^"]+)"', change.read_text("utf-8"), re.MULTILINE)
        mine = [one for one in rows if whose is not None and parsed(one["op"]).name == whose[1]]
    elif name:
        mine = [one for one in rows if name in f"{one['name']} {one['shapes']}"]
    else:
        mine = sorted(rows, key=lambda one: -one["wins"][1])[:1]
    if not mine:
        known = ", ".join(dict.fromkeys(one["name"] for one in rows[:8]))
        raise ProfkitError("the ledger predicts nothing for this change", fix=f"its rows: {known or 'none that win'}")
    return told, mine


def document(rows: Rows, step: float, found: Verified, covered: float) -> dict[str, Any]:
    """Data with the sentences (`said`); step: of the ledger [s]; covered: the share of the timed seconds that the ledger's record is of."""
    low, high = (min(1.0, covered) * sum(row["wins"][at] for row in rows) / step for at in (0, 1))
    won, least, most = (1 - 1 / value for value in (found.ratio.value, found.ratio.low, found.ratio.high))
    held = "below" if most < low else "above" if least > high else "unsure" if least < 0 < most else "within"
    output = "differ" if not found.agrees else "close" if found.difference else "agree"
    words = {
        "what": say("listed").join(dict.fromkeys(f"{row['name']}: {named(row['advice'])}" for row in rows)),
        "range": say("lg_range", low=units.percent(round(low, 4)), high=units.percent(round(high, 4))),
        "value": units.percent(round(won, 4)),
        "interval": say("lg_range", low=units.percent(round(least, 4)), high=units.percent(round(most, 4))),
        "time": units.digits(found.usual),
        "count": str(len(found.before)),
        "difference": units.percent(found.difference),
        "alone": units.percent(found.alone),
        "where": found.where,
    }
    return {
        "schema": "profkit-verify/1",
        "predicted": [low, high],
        "got": plain({"value": won, "low": least, "high": most}),
        "held": held,
        "agrees": found.agrees,
        "before": found.before,
        "after": found.after,
        "said": "\n".join(say(f"lg_{key}", **words) for key in ("predicted", "got", held, output)),
    }
