"""Texts of figures in English and Chinese; English where no font has the latter."""

from __future__ import annotations

from roofline.wording import has_chinese

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
