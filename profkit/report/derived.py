"""Write the derived files of a run directory from a Study; needs no GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from analyzers.records import plain
from analyzers.verdicts.shapes import to_dict
from profkit.errors import ProfkitError
from profkit.report import figures
from profkit.report.messages import speaking
from profkit.report.writers import markdown
from profkit.rundir.files import write_atomic
from profkit.study.study import Study
from roofline.figure.plot import image


def write(study: Study, *, pictures: bool = True, lang: str = "en") -> list[Path]:
    """Write metrics, kernels, pictures and report.md in the current language; return the paths.

    Raises ProfkitError where source files of the run are gone.
    """
    if (gone := study.run.gone) and (study.path / "metrics.json").exists():
        raise ProfkitError(
            f"{study.path / gone[0]} is missing but listed in run.json",
            fix="restore the file, or measure again; metrics.json and the report stay unchanged",
        )
    numbers, kernels, text = (study.path / name for name in ("metrics.json", "kernels.csv", "report.md"))
    write_atomic(numbers, metrics(study).encode())
    write_atomic(kernels, study.kernels.to_csv(index=False).encode())
    made = figures.drawn(study) if pictures else {}
    drawn = [study.path / f"{name}.{form}" for name in made for form in ("png", "svg")]
    for file in drawn:
        write_atomic(file, image(made[file.stem], file))
    with speaking(lang):
        write_atomic(text, markdown.report(study).encode())
    return [numbers, kernels, *drawn, text]


def metrics(study: Study) -> str:
    """The analysis as one JSON document."""
    return json.dumps(document(study), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def document(study: Study) -> dict[str, Any]:
    """The analysis, with the verdict on each candidate, as a dict."""
    more: dict[str, Any] = {"shapes": to_dict(study.shapes)} if study.shapes else {}
    if study.passes:
        told = {name: one.to_dict() for name, one in study.passes}
        # Of the gradients its inputs are what they are by.
        of = {"by": "inputs", "times": "times", "speedups": "speedups"}
        more["passes"] = {name: {key: one[field] for key, field in of.items()} for name, one in told.items()}
    return {
        **study.analysis.to_dict(),
        "verdicts": [one.to_dict() for one in study.verdicts.values()],
        "inferred": [plain(one) for one in study.inferred.values()],
        "lines": [plain(one) for one in study.lines],
        **more,
    }
