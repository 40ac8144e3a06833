"""Names and words of figures in English and Chinese, in characters that fonts here can show."""

from __future__ import annotations

import contextlib
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


CHINESE = {
    "Arithmetic intensity [FLOP/byte]": "算术强度 [FLOP/byte]",
    "Performance [FLOP/s]": "性能 [FLOP/s]",
    "{level} intensity": "按 {level} 访存量计",
    "lower bound of the task": "任务的理论下限",
    "area: share of time": "面积：占时间的比例",
    "%: of its ceiling": "%：达到上限的比例",
    "above its ceiling": "高于上限",
    "measured ceiling": "实测上限",
    "from ncu ceiling": "ncu 给出的上限",
    "measured or from ncu ceiling": "实测或 ncu 给出的上限",
    "datasheet ceiling": "数据手册的上限",
    "ridge {intensity}": "拐点 {intensity}",
    "No FLOPs: bandwidth against its ceiling": "无 FLOP：带宽与上限之比",
    "No FLOPs: bandwidth against its ceiling ({count} more not shown)": "无 FLOP：带宽与上限之比（另有 {count} 个未画出）",
    "{share} of {roof}": "{roof} 的 {share}",
    "ceiling unknown": "上限未知",
    "kernel": "kernel",
    "of time": "占时间",
    "achieved": "实测性能",
    "of ceiling": "达到上限",
    "all": "全部",
    ", ": "、",
    "; ": "；",
    ".": "。",
    "{names} and {count} more": "{names} 及另外 {count} 个",
    "Above the ceiling: {names}. Check unit, precision, clock and counting; or the ceiling was measured too low.": (
        "高于上限：{names}。请核对单位、精度、频率与计数方法；也可能是上限测得偏低。"
    ),
    "No ceiling known for {device}: {roofs}. Measure the ceilings to judge these kernels.": (
        "不知道 {device} 的上限：{roofs}。实测上限之后才能判断这些 kernel。"
    ),
    "this device": "此设备",
    "{lost} of {count} points not shown: intensity or FLOP/s not measured.": (
        "{count} 个点中有 {lost} 个未画出：没有测到算术强度或 FLOP/s。"
    ),
    "{count} more kernels without a number.": "另有 {count} 个 kernel 没有编号。",
    "{count} more kernels without a number, {share} of the time.": "另有 {count} 个 kernel 没有编号，占时间的 {share}。",
    "#n: the n-th name, in characters that no font on this machine can draw.": (
        "#n：第 n 个名称，其中有本机字体画不出的字符。"
    ),
    "Ceilings: {sources}.": "上限：{sources}。",
    "{roofs} measured": "{roofs} 为实测",
    "{roofs} from ncu's counters": "{roofs} 由 ncu 的计数器给出",
    "{roofs} listed, dense ({sheet})": "{roofs} 为标称值，稠密（{sheet}）",
    "{roofs} listed, dense": "{roofs} 为标称值，稠密",
}
"""English -> Chinese, of every sentence of a roofline; what stands in braces is filled in."""


def told(lang: str, english: str, **values: str) -> str:
    """A sentence in the language of a picture. Raises KeyError for one that has no Chinese."""
    return (CHINESE[english] if lang == "zh" and has_chinese() else english).format(**values)
