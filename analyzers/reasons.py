"""What was found against an implementation, in Chinese: the runner writes it in English, sentence by sentence as below.

A sentence that is not known here (an exception's own text, a compiler's) stays as it is. `rest` and `more` of a pattern
are sentences themselves.
"""

from __future__ import annotations

import functools
import re

_INPUTS = {
    "inputs with the other sign": "符号相反的输入",
    "inputs times 1e-3": "缩小到 1e-3 倍的输入",
    "inputs times 10": "放大到 10 倍的输入",
    "inputs times 1e3": "放大到 1e3 倍的输入",
    "rows that are all the first": "各行都与首行相同的输入",
    "rows in order of size": "各行按大小排序的输入",
    "columns in order of size": "各列按大小排序的输入",
    "every other row zero": "隔行为零的输入",
    "rows with a single one": "每行只有一个 1 的输入",
    "every other row denormal": "隔行为非规格化数的输入",
    "the lowest values allowed": "取允许的最小值",
    "the highest values allowed": "取允许的最大值",
    "inputs that are drawn the same every time, with other values": "每次抽取都相同的输入换成别的值",
    "a mask, whole numbers or a setting drawn the same every time, with another value": "每次抽取都相同的掩码、整数或设定换成别的值",
    "a mask or whole numbers that are all the same": "全部相同的掩码或整数",
    "inputs with gaps between the elements": "元素之间有间隔的输入",
    "inputs that start one element later": "起点后移一个元素的输入",
    "rows that are one row in memory": "各行共用同一行内存的输入",
    "a batch of one": "批大小为 1",
}
_AS_WELL = ", those of one dimension too"
_INPUTS |= {f"{name}{_AS_WELL}": f"{said}（含一维输入）" for name, said in _INPUTS.items()}
_ANSWERS = {
    "zeros": "全零",
    "ones": "全一",
    "the mean": "平均值",
    "the answer to other inputs": "另一组输入的答案",
    "the first half, zeros behind": "只有前一半、其余为零",
    "all but the last block": "缺最后一块",
    "an input as it came": "原样返回的输入",
}
_STATUS = {
    "mismatch": "结果不符",
    "nan": "出现 NaN",
    "wrong-shape": "形状不符",
    "wrong-dtype": "类型不符",
    "wrong-device": "设备不符",
    "wrong-type": "返回类型不符",
    "compile-error": "编译失败",
    "load-error": "加载失败",
    "error": "运行出错",
    "crash": "崩溃",
    "corrupt": "CUDA 上下文损坏",
    "hang": "卡死",
    "memory-limit": "超出内存限制",
    "skipped": "未运行",
    "unsound": "访存有误",
    "mutates-inputs": "改动输入",
    "stops-computing": "中途停止计算",
}
"""What became of an implementation, as `status` has it."""
_WORDS = {**_INPUTS, **_ANSWERS, "NaN": "NaN", "infinite": "无穷大"}
_LISTED = "|".join(re.escape(one) for one in sorted(_WORDS, key=len, reverse=True))
_DONE = {"refuses": "拒绝", "wrong for": "答错", "crashes on": "崩溃于", "hangs on": "卡死于"}
_DID = "|".join(_DONE)
_KINDS = {
    "layout": "内存布局",
    "shape": "形状",
    "unusual input": "特殊输入",
    "unusual weight": "特殊权重",
    "value": "取值",
}
_KIND = "|".join(_KINDS)
_SENTENCES = [
    (rf"(?P<did>{_DID}) (?P<n>\d+) (?P<kind>{_KIND})s?", "{did} {n} 种{kind}"),
    (
        rf"(?P<did>{_DID}) (?P<n>\d+) (?P<kind>{_KIND})s?, (?P<rest>(?:{_DID}) .+)",
        "{did} {n} 种{kind}、{rest}",
    ),
    (rf"(?P<what>{_LISTED})", "{what}"),
    (rf"(?P<what>{_LISTED}): (?P<rest>.+)", "{what}：{rest}"),
    (rf"(?P<what>(?:{_LISTED})(?:, (?:{_LISTED}))*) would pass", "{what}也会被判为正确"),
    ("the reference draws its answers", "参考实现的结果是随机的"),
    (
        r"(?:not run: )?a (?P<name>\S+) candidate does not run on this device, or was not asked for",
        "{name} 候选实现不能在此设备上运行，或没有要求运行",
    ),
    (r"get_more_inputs\(\)\[(?P<n>\d+)\]: (?P<rest>.+)", "get_more_inputs()[{n}]：{rest}"),
    (
        r"(?P<where>output\S*): (?P<a>\d+) of (?P<b>\d+) elements differ, the worst by (?P<c>\S+) \(rms (?P<d>\S+)\)",
        "{where}：{b} 个元素中有 {a} 个不符，最大相差 {c}（均方根 {d}）",
    ),
    (r"(?P<where>output\S*): (?P<a>\d+) of (?P<b>\d+) elements differ", "{where}：{b} 个元素中有 {a} 个不符"),
    (
        r"(?P<where>output\S*): (?P<a>\d+) of (?P<b>\d+) elements are (?P<what>NaN|infinite) where the reference is not",
        "{where}：{b} 个元素中有 {a} 个为 {what}，而参考实现不是",
    ),
    (
        r"(?P<where>output\S*): (?P<a>\d+) of (?P<b>\d+) elements are not NaN where the reference is",
        "{where}：{b} 个元素中有 {a} 个不是 NaN，而参考实现是",
    ),
    (
        r"(?P<where>output\S*): (?P<a>\d+) of (?P<b>\d+) elements are finite where the reference is infinite",
        "{where}：{b} 个元素中有 {a} 个是有限数，而参考实现为无穷大",
    ),
    (
        r"(?P<where>output\S*): (?P<a>\d+) of (?P<b>\d+) elements are infinite with the other sign",
        "{where}：{b} 个元素中有 {a} 个无穷大的符号相反",
    ),
    (r"the gradient of (?P<where>\S+): (?P<rest>.+)", "{where} 的梯度：{rest}"),
    (
        r"(?P<a>\d+) of (?P<b>\d+) elements differ, the worst by (?P<c>\S+) \(rms (?P<d>\S+)\)",
        "{b} 个元素中有 {a} 个不符，最大相差 {c}（均方根 {d}）",
    ),
    (r"no gradient reaches (?P<where>\S+): its output is detached from it", "{where} 得不到梯度：输出与其脱离"),
    (r"(?P<a>\d+) outputs, the reference has (?P<b>\d+)", "{a} 个输出，参考实现有 {b} 个"),
    (r"(?P<where>output\S*) is (?P<a>.+), the reference gives (?P<b>.+)", "{where} 为 {a}，参考实现为 {b}"),
    (
        r"ignores (?P<names>.+): it is right for the values they are constructed with alone",
        "忽略了 {names}：只对构造时的取值正确",
    ),
    (
        r"right only for the values that (?P<names>.+?) is constructed with: (?P<rest>.+)",
        "只对 {names} 构造时的取值正确：{rest}",
    ),
    (
        r"right for weights as they are constructed, wrong where they have other signs and sizes \((?P<names>.+?)\): (?P<rest>.+)",
        "只对构造时的权重正确，权重（{names}）换了符号和大小则错误：{rest}",
    ),
    (
        r"right for weights as they are constructed, wrong where some that hardly count are larger \((?P<names>.+?)\): (?P<rest>.+)",
        "只对构造时的权重正确，几乎不起作用的权重（{names}）变大则错误：{rest}",
    ),
    (
        r"right for weights as they are constructed, wrong where they have it remember longer \((?P<names>.+?)\): (?P<rest>.+)",
        "只对构造时的权重正确，权重（{names}）使其记得更久则错误：{rest}",
    ),
    (
        rf"gives (?P<what>{_LISTED}), which is right for the inputs as they are drawn alone; wrong for (?P<more>{_LISTED})",
        "给出{what}，只对抽取的输入碰巧正确；对{more}不正确",
    ),
    (r"changes its inputs: (?P<rest>.+)", "改动了输入：{rest}"),
    (r"(?P<a>\d+) of (?P<b>\d+) elements of (?P<where>\S+)", "{where} 的 {b} 个元素中的 {a} 个"),
    ("gave the answer to the inputs of the trial before", "给出的是上一组输入的答案"),
    (
        r"adds something else to (?P<where>\S+): off by (?P<n>\S+) of what is added",
        "加到 {where} 上的值与参考实现不同，相差增量的 {n}",
    ),
    ("leaves other values in its inputs than the reference does", "在输入里留下的值与参考实现不同"),
    (
        r"(?P<where>output\S*): what is not filled with one number is off by (?P<n>\S+) of its size",
        "{where}：除以同一个数填充的部分外，其余相差自身大小的 {n}",
    ),
    (r"leaves other values in (?P<name>\S+) than the reference does", "在 {name} 里留下的值与参考实现不同"),
    (
        r"right in the trials, wrong in later calls on inputs of the same kind: (?P<rest>.+)",
        "检验时正确，之后对同类输入的调用错误：{rest}",
    ),
    (r"a timed call gave another result than the checked one: (?P<rest>.+)", "计时的调用与检验过的结果不同：{rest}"),
    ("a timed call gave another number of outputs than the checked one", "计时的调用给出的输出个数与检验过的不同"),
    (
        r"element (?P<a>\d+) of output (?P<b>\d+) was (?P<c>\S+) when the timed calls were said to be done; the reference gives (?P<d>\S+)",
        "计时的调用结束时，第 {b} 个输出的第 {a} 个元素为 {c}，参考实现为 {d}",
    ),
    ("a timed call left no answer", "计时的调用没有留下结果"),
    (r"no end of (?P<phase>\w+) after (?P<n>\S+) s; killed", "{phase} 阶段 {n} s 后仍未结束，已终止"),
    (r"killed by (?P<signal>\w+) during (?P<phase>\w+)", "在 {phase} 阶段被 {signal} 终止"),
    (r"ended the process with exit code (?P<n>-?\d+) during (?P<phase>\w+)", "在 {phase} 阶段以退出码 {n} 结束了进程"),
    (r"(?P<a>\S+) \((?P<b>\S+) in the reference\)", "{a}（参考实现为 {b}）"),
    (
        r"(?P<a>\S+) of the least time that its own counted work needs",
        "只有其自身计数工作量所需最短时间的 {a}",
    ),
]


@functools.cache
def _known() -> list[tuple[re.Pattern[str], str]]:
    """The sentences, compiled when the first is told in Chinese."""
    return [(re.compile(pattern, re.DOTALL), words) for pattern, words in _SENTENCES]


def in_chinese(said: str) -> str:
    """The same in Chinese; as it is where it is none of the sentences known."""
    if said in _STATUS:
        return _STATUS[said]
    parts = said.split("; ")
    if len(parts) > 1 and all(part.startswith(tuple(_INPUTS)) for part in parts):
        return "；".join(map(in_chinese, parts))
    for pattern, words in _known():
        found = pattern.fullmatch(said)
        if found:
            return words.format(**{name: _part(name, text) for name, text in found.groupdict().items()})
    return said


def _part(name: str, text: str) -> str:
    if name in ("rest", "more"):
        return in_chinese(text)
    if name in ("did", "kind"):
        return {**_DONE, **_KINDS}.get(text, text)
    if name == "what":
        return "、".join(_WORDS.get(one, one) for one in re.findall(_LISTED, text)) or text
    return text
