"""metrics.json: everything the analyzers made of a run (schema profkit-metrics/1)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profkit.study.study import Study


def metrics(study: Study) -> str:
    """The analysis as one JSON document."""
    return json.dumps(document(study), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def document(study: Study) -> dict[str, Any]:
    """The analysis with the verdict on each candidate."""
    more: dict[str, Any] = {"shapes": study.shape_figures} if study.shapes else {}
    if study.passes:
        more["passes"] = {name: _pass(one.to_dict()) for name, one in study.passes}
    return {
        **study.analysis.to_dict(),
        "verdicts": [one.to_dict() for one in study.verdicts.values()],
        "inferred": [one.to_dict() for one in study.inferred.values()],
        "lines": [one.to_dict() for one in study.lines],
        **more,
    }


def _pass(figures: dict[str, Any]) -> dict[str, Any]:
    """What is said of a pass of its own; of the gradients what they are by."""
    return {"by": figures["inputs"], "times": figures["times"], "speedups": figures["speedups"]}
