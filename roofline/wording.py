"""Numbers and names as people read them, in characters that the fonts at hand can show."""

from __future__ import annotations

import contextlib
import math
from functools import lru_cache
from pathlib import Path

BUNDLED = "DejaVu Sans"
"""Ships with matplotlib, so figures come out the same everywhere."""

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
"""How the files of such fonts are called."""

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def si(value: float, unit: str) -> str:
    """Three significant digits with a prefix: 4.32 TB/s."""
    if not math.isfinite(value):
        return f"? {unit}"
    scale, prefix = next(((s, p) for s, p in _PREFIXES if abs(value) >= s * ROUNDED), _PREFIXES[-1])
    return f"{digits(value / scale)} {prefix}{unit}".rstrip()


SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
"""The units in which times are told, the largest first."""
ROUNDED = 0.9995
"""Of a unit, from which three digits are one of it."""


def seconds(value: float) -> str:
    """Three significant digits in s, ms or us: 23.3 us; "0" for none."""
    scale, unit = next((one for one in SECONDS if abs(value) >= one[0] * ROUNDED), SECONDS[-1])
    return f"{digits(value / scale)} {unit}" if value else "0"


def digits(value: float) -> str:
    """Three significant digits, without an exponent where it fits."""
    if not math.isfinite(value):
        return "?"
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(float(f"{value:.2e}")))))
    return f"{value:.{places}f}" if places < 7 and abs(value) < 1e7 else f"{value:.2e}"


def percent(fraction: float) -> str:
    """A fraction in percent: two digits, three from 100 up."""
    if not math.isfinite(fraction):
        return "?"
    value = fraction * 100
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.1f} %"


def roof_name(name: str) -> str:
    """A ceiling's name for people: "tensor_bf16" -> "BF16 tensor"."""
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
    """Whether a font of this machine can draw it."""
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
    """The text without undrawable characters; `substitute` stands for a text that loses any."""
    covered = _covered(tuple(families()))
    plain = " ".join(text.split())
    rest = " ".join("".join(c if ord(c) in covered else " " for c in plain).split())
    if rest == plain:
        return rest
    if not any(c.isalnum() for c in rest):
        return substitute
    return f"{rest} ({substitute})" if substitute else rest
