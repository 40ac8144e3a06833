"""The roofline figure: a pure function of a scene; writing it to a file."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from roofline.errors import RooflineError
from roofline.figure import below, captions
from roofline.figure.canvas import HEIGHT, Canvas, draw_roofs
from roofline.figure.marks import Tag, draw_arrows, draw_lower_bounds, draw_points, draw_tags, name_tags
from roofline.figure.scene import Scene
from roofline.figure.sheet import Block, Sheet, page
from roofline.figure.style import DPI, theme

AXES_FOOT = 0.52


def draw(scene: Scene) -> Any:
    """Draw a scene as a matplotlib Figure, 8 inches wide and as high as needed.

    Kernels are named in the plot if the name fits without overlap. Raises RooflineError for an unknown theme.
    """
    with settings():
        tags = name_tags(scene)
        figure, homeless = _compose(scene, tags)
        if homeless:  # the foot counts what has no name
            figure, _ = _compose(scene, [tag for tag in tags if tag not in homeless])
        return figure


def _compose(scene: Scene, tags: Sequence[Tag]) -> tuple[Any, list[Tag]]:
    """The figure with these tags, and the tags without room."""
    look, homeless = theme(scene.theme), list[Tag]()
    blocks = [captions.head(scene), captions.keys(scene, look)]
    copies = bool(below.copies(scene))
    if scene.lower_bounds or not copies or any(p.placed for p in scene.points):
        axes = Block(HEIGHT + AXES_FOOT, lambda sheet, top: homeless.extend(_draw_axes(sheet, scene, tags, top)))
        blocks.append(axes)
    if copies:
        blocks.append(below.bars(scene))
    return page(look, [*blocks, captions.foot(scene, tags)]), homeless


def _draw_axes(sheet: Sheet, scene: Scene, tags: Sequence[Tag], top: float) -> list[Tag]:
    canvas = Canvas(sheet, scene, top)
    draw_lower_bounds(canvas)
    draw_points(canvas, tags)
    draw_arrows(canvas)
    draw_roofs(canvas)
    return draw_tags(canvas, tags)


def save(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure as .png, .svg or .pdf, byte for byte reproducible; raises RooflineError."""
    target = Path(path)
    data = image(figure, target)
    try:
        target.write_bytes(data)
    except OSError as error:
        fix = "name a file in a folder that exists and is writable, with room on its disk"
        raise RooflineError(f"cannot write {target}: {error.strerror or error}", fix=fix) from error


def image(figure: Any, target: Path) -> bytes:
    """Bytes of the file by `save`; raises RooflineError."""
    form = target.suffix.lower().removeprefix(".")
    metadata: dict[str, dict[str, None]] = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None},
    }
    if form not in metadata:
        raise RooflineError(f"{target}: cannot draw {target.suffix or 'without an extension'}", fix="use .png or .svg")
    with io.BytesIO() as stream, settings():
        figure.savefig(stream, format=form, metadata=metadata[form], dpi=DPI, facecolor=figure.get_facecolor())
        return stream.getvalue()


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """matplotlib's defaults instead of the user's matplotlibrc, and stable ids."""
    import logging

    import matplotlib

    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    # It reports every CJK font without a bold face, on stderr.
    log.setLevel(logging.ERROR)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.hashsalt": "profkit", "svg.fonttype": "path", "text.usetex": False})
        try:
            yield
        finally:
            log.setLevel(level)
