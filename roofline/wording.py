"""Numbers and names as people read them, in characters that the fonts at hand can show."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

BUNDLED = "DejaVu Sans"
"""Ships with matplotlib, so figures come out the same everywhere."""

CJK = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "Noto Sans CJK JP",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "SimHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Heiti SC",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)

_FILES = (
    "sanscjk",
    "notosanssc",
    "sourcehansans",
    "wqy",
    "msyh",
    "simhei",
    "pingfang",
    "hiragino",
    "heiti",
    "droidsansfallback",
)
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


def short_name(label: str, limit: int = 26) -> str:
    """A kernel's name cut to `limit` characters: C++ namespaces and template arguments go first."""
    name = re.sub(r"\s+", " ", label).strip()
    if len(name) > limit and ("::" in name or "<" in name or "(" in name):
        name = _without_brackets(name.removeprefix("void ")).rsplit("::", 1)[-1].strip() or name
    return cut(name, limit)


def cut(name: str, limit: int) -> str:
    """At most `limit` characters, cut in the middle."""
    if len(name) <= limit:
        return name
    tail = (limit - 1) * 2 // 5
    return name[: limit - 1 - tail].rstrip("_ ") + "…" + name[len(name) - tail :].lstrip("_ ")


def distinct_names(labels: Iterable[str], limit: int = 26) -> dict[str, str]:
    """A short name for every label; kernels of one template get a telling argument."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(short_name(label, limit), []).append(label)
    found: dict[str, str] = {}
    for name, members in groups.items():
        words = [re.findall(r"[A-Za-z_]\w*", label) for label in members]
        common = set.intersection(*(set(w) for w in words))
        for label, own in zip(members, words, strict=True):
            hint = next((w for w in own if w not in common), "") if len(members) > 1 else ""
            found[label] = _hinted(name, hint, limit)
    return found


def _hinted(name: str, hint: str, limit: int) -> str:
    if not hint:
        return name
    hint = cut(hint, limit * 3 // 5)
    room = max(6, limit - len(hint) - 3)
    if len(name) > room:
        head = name[: room - 1]
        name = (head[: head.rfind("_")] if head.rfind("_") >= 4 else head) + "…"
    return f"{name} [{hint}]"


def _without_brackets(name: str) -> str:
    kept, depth = [], 0
    for char in name:
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth = max(0, depth - 1)
        elif depth == 0:
            kept.append(char)
    return "".join(kept)


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
        installed: list[str] = []
        with contextlib.suppress(ImportError, OSError):  # how to ask is the system's affair
            installed = font_manager.findSystemFonts()
        for path in installed:
            if any(name in Path(path).name.lower() for name in _FILES):
                with contextlib.suppress(OSError, RuntimeError):
                    font_manager.fontManager.addfont(path)
    return found()


@lru_cache(maxsize=8)
def _glyphs(family: str) -> frozenset[int]:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(font_manager.findfont(family)).get_charmap())


@lru_cache(maxsize=8)
def _covered(fonts: tuple[str, ...]) -> frozenset[int]:
    return frozenset[int]().union(*(_glyphs(font) for font in fonts))


def showable(text: str, substitute: str = "") -> str:
    """The text without undrawable characters; `substitute` stands for a text that loses any."""
    covered = _covered(tuple(families()))
    plain = re.sub(r"\s+", " ", text)
    kept = "".join(c if ord(c) in covered else "\0" for c in plain)
    if "\0" not in kept:
        return kept.strip()
    rest = re.sub(r"\0+", " ", kept)
    rest = re.sub(r"\s+", " ", rest).strip()
    if not any(c.isalnum() for c in rest):
        return substitute
    return f"{rest} ({substitute})" if substitute else rest
