"""Names and words of figures, in characters that the available fonts can show."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

BUNDLED = "DejaVu Sans"
"""Font shipped with matplotlib, for equal figures everywhere."""

CJK = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "SimHei",
    "PingFang SC",
    "Hiragino Sans GB",
)
_FILES = ("sanscjk", "notosanssc", "sourcehansans", "wqy", "msyh", "simhei", "pingfang", "hiragino")
"""File names of CJK fonts."""


def roof_name(name: str) -> str:
    """A ceiling's display name: "tensor_bf16" -> "BF16 tensor"."""
    core = name.removeprefix("tensor_")
    return f"{core.upper()} tensor" if name.startswith("tensor_") else core.upper()


def roof_unit(name: str) -> str:
    """OP/s for integer ceilings, else FLOP/s."""
    return "OP/s" if "int" in name else "FLOP/s"


def cut(name: str, limit: int) -> str:
    """At most `limit` characters, cut in the middle."""
    if len(name) <= limit:
        return name
    tail = (limit - 1) * 2 // 5
    return name[: limit - 1 - tail].rstrip("_ ") + "…" + name[len(name) - tail :].lstrip("_ ")


def families() -> list[str]:
    """Font families to draw with: the bundled one, then a CJK font of this machine, if any."""
    cjk = _cjk_family()
    return [BUNDLED, cjk] if cjk else [BUNDLED]


def has_chinese() -> bool:
    """Whether this machine has a font for Chinese."""
    return bool(_cjk_family())


@lru_cache(maxsize=1)
def _cjk_family() -> str:
    from matplotlib import font_manager

    def found() -> str:
        have = {entry.name for entry in font_manager.fontManager.ttflist}
        return next((name for name in CJK if name in have), "")

    if not found():
        # Matplotlib remembers the fonts there were when it first looked.
        for path in font_manager.findSystemFonts():
            if any(name in Path(path).name.lower() for name in _FILES):
                with contextlib.suppress(OSError, RuntimeError):
                    font_manager.fontManager.addfont(path)
    return found()


@lru_cache(maxsize=8)
def _covered(fonts: tuple[str, ...]) -> frozenset[int]:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    return frozenset[int]().union(*(FT2Font(font_manager.findfont(font)).get_charmap() for font in fonts))


def showable(text: str, substitute: str = "") -> str:
    """The text without undrawable characters; `substitute` replaces a text that loses any."""
    covered = _covered(tuple(families()))
    plain = " ".join(text.split())
    rest = " ".join("".join(c if ord(c) in covered else " " for c in plain).split())
    if rest == plain:
        return rest
    if not any(c.isalnum() for c in rest):
        return substitute
    return f"{rest} ({substitute})" if substitute else rest


def told(words: Mapping[str, str], english: str, **values: str) -> str:
    """Sentence of a figure in the language of `words`; English without."""
    return words.get(english, english).format(**values)
