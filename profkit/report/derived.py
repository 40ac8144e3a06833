"""The derived half of a run directory: written from a Study, at any time, anywhere, without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from profkit.report import figures
from profkit.report.writers import json, markdown
from profkit.rundir.files import write_atomic
from roofline.plot import image
from roofline.steps import draw_steps

if TYPE_CHECKING:
    from profkit.study.study import Study


def write(study: Study) -> list[Path]:
    """Write metrics.json, kernels.csv, roofline.png, roofline.svg, waterfall.png, waterfall.svg and report.md; the
    paths written. No waterfall where nothing has a time.
    """
    metrics, kernels, text = (study.path / name for name in ("metrics.json", "kernels.csv", "report.md"))
    write_atomic(metrics, json.metrics(study).encode())
    write_atomic(kernels, study.kernels.to_csv(index=False).encode())
    pictures = {"roofline": figures.draw(study)}
    steps = figures.steps_of(study)
    if steps is not None:
        pictures["waterfall"] = draw_steps(steps)
    drawn = [study.path / f"{name}.{form}" for name in pictures for form in ("png", "svg")]
    for file in drawn:
        write_atomic(file, image(pictures[file.stem], file))
    write_atomic(text, markdown.report(study).encode())
    return [metrics, kernels, *drawn, text]
