"""Every sentence and label of the write-ups in English and Chinese, once. The rules' words are in
analyzers.bottleneck_text."""

from __future__ import annotations

LANGUAGES = ("en", "zh")

# fmt: off
_CATALOGUE: dict[str, tuple[str, str]] = {
    "gap": ("[to be filled in by the author: {what}]", "【待作者补充：{what}】"),
    "title": ("Optimising {sample} with TensorRT", "{sample} 的 TensorRT 优化"),
    "environment": ("Test environment", "测试环境"),
    "baseline": ("Baseline performance", "基线性能"),
    "hot": ("Hot spots", "热点分析"),
    "steps": ("Step by step", "逐步优化"),
    "accuracy": ("Accuracy", "精度"),
    "performance": ("Performance", "性能"),
    "conclusion": ("Conclusions and future work", "结论与未来工作"),
    "commands": ("Commands to reproduce", "复现命令"),
    "slips": ("Arithmetic checked", "算术核对"),
    "findings": ("Why it is slow", "瓶颈分析"),
    "model": ("the model, its original implementation, and what makes it hard to optimise", "模型简介、原始实现与优化难点"),
    "lessons": ("what was learnt, what is left to do", "经验与体会、未来工作"),
    "docker": ("the commands from docker pull to the engine", "从 docker pull 到引擎生成的全部命令"),
    "no_hot": ("a profile: --trtexec profile.json (trtexec --exportProfile), or a run with counters", "性能剖析：--trtexec profile.json（trtexec --exportProfile），或含计数器的运行"),
    "no_eval": ("the output of testEncoderAndDecoder.py: --eval FILE, twice for the baseline and the engine", "testEncoderAndDecoder.py 的输出：--eval 文件，给出基线与引擎两次"),
    "no_baseline": ("the time of the original model on this machine", "原始模型在本机上的时间"),
    "no_steps": ("the runs of the steps: report BEFORE STEP1 STEP2 --for tensorrt", "各步骤的运行目录：report BEFORE STEP1 STEP2 --for tensorrt"),
    "why_step": ("what was seen before this step and why it was taken", "该步之前的现象与采取措施的理由"),
    "device": ("device", "设备"), "driver": ("driver", "驱动"), "created": ("measured", "测量时间"),
    "value": ("value", "值"), "item": ("item", "项目"),
    "layer": ("layer or kernel", "层或 kernel"), "count": ("count", "出现次数"), "total": ("total", "累计时间"),
    "share": ("share", "占比"), "of_roof": ("of the roof", "占屋顶"),
    "step": ("step", "步骤"), "before": ("before", "优化前"), "measure": ("what changed", "措施"), "after": ("after", "优化后"),
    "gain": ("speed-up ({formula})", "提速（{formula}）"), "since": ("since the first", "相对第一步"),
    "attainable": ("of attainable", "占可达"), "moved": ("counters that moved", "变化的计数器"),
    "batch": ("batch", "batch"), "length": ("length", "序列长度"),
    "max_abs": ("largest absolute error", "最大绝对误差"), "max_rel": ("largest relative error", "最大相对误差"),
    "median_rel": ("median relative error", "相对误差中位数"), "verdict": ("verdict", "结论"),
    "mean": ("the mean errors", "误差平均值"),
    "tp": ("throughput", "吞吐量"), "latency": ("latency [ms]", "延迟 [ms]"),
    "part": ("part", "部分"), "implementation": ("implementation", "实现"), "time": ("time", "时间"),
    "correct": ("correct", "正确"),
    "printed": ("printed", "所写"), "recomputed": ("recomputed", "重算"), "where": ("where", "位置"), "reason": ("reason", "原因"),
    "all_follow": ("Every figure that can be recomputed follows from its inputs, within rounding.", "所有可重算的数字都与其输入相符（在舍入范围内）。"),
    "convention": ("Speed-up = {formula}, of {base}.", "提速 = {formula}，以{base}计。"),
    "base_time": ("the time of one call", "单次调用时间"),
    "base_latency": ("latency", "延迟"),
    "layers_note": ("Layer times are from a separate profiling run and do not add up to the latency.", "各层时间来自单独的剖析运行，相加不等于延迟。"),
    "bound": ("at most {ratio} of the call ({time})", "最多占单次调用的 {ratio}（{time}）"),
    "next": ("next", "下一步"), "expect": ("expect", "预期"), "because": ("evidence", "依据"),
    "doubts": ("Doubts", "存疑之处"),
    "figure": ("roofline", "Roofline 图"),
    "thresholds": ("Thresholds: {limits}.", "阈值：{limits}。"),
    "speedup_matrix": ("Speed-up over the first table", "相对第一张表的加速"),
}
# fmt: on


def say(key: str, lang: str, **values: str) -> str:
    """A message in a language; raises KeyError for an unknown one: messages are the programme's, not a user's."""
    return _CATALOGUE[key][LANGUAGES.index(lang)].format(**values)


def catalogue() -> dict[str, tuple[str, str]]:
    """All messages, (English, Chinese)."""
    return dict(_CATALOGUE)
