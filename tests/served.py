"""Small traces of torch.profiler with shapes, made for tests."""

_BIG, _BF16 = [8192, 8192], "c10::BFloat16"
CALLS = [
    (("aten::mm", [_BIG, _BIG], [_BF16, _BF16], [], "nvjet_tst"), 1500),
    (("aten::gelu", [_BIG, []], [_BF16, ""], [], "gelu_kernel"), 120),
]
"""A product and an element-wise operation on what it gives."""


def trace(*calls, pace=10.0, graph=0, old=False):
    """A Kineto trace of an H100: each call ((name, dims, types, values, kernel), us on the GPU), launched every `pace` us.

    graph: the calls are captured, and launched as a CUDA graph so many times. old: external ids are correlations, which no
    operation has, as before torch 2.1.
    """
    events, host, free = [], 100.0, 0.0

    def call(name, correlation, op=None):
        args = {"correlation": correlation} | ({"External id": op} if op else {})
        events.append(_event("cuda_runtime", name, host + 1, 1.0, **args))

    def kernel(name, length, correlation, op=None):
        nonlocal free
        begin = max(free + 0.5, host + 5)
        free = begin + length
        more = {"External id": op} if op else {}
        args = {"device": 0, "stream": 7, "correlation": correlation, "grid": [1, 1, 1], "block": [1, 1, 1], **more}
        events.append({**_event("kernel", name, begin, length, **args), "pid": 0, "tid": 7})

    if graph:
        call("cudaStreamBeginCapture", 9000)
    for number, ((name, dims, types, values, launched), length) in enumerate(calls, 1):
        host += pace
        known = {"Input Dims": dims, "Input type": types, "Concrete Inputs": values} if types else {}
        events.append(_event("cpu_op", name, host, min(pace, 8.0), **{"External id": number, **known}))
        correlation = number + 700 * old
        call("cudaLaunchKernel", correlation, correlation)
        if not graph:
            kernel(launched, length, correlation, correlation)
    if graph:
        host += pace
        call("cudaStreamEndCapture", 9001)
    for replay in range(graph):
        host += pace
        call("cudaGraphLaunch", 5000 + replay)
        for (*_, launched), length in calls:
            kernel(launched, length, 5000 + replay)
    device = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0}
    return {"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}


def _event(kind, name, begin, length, **args):
    return {"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": 1, "ts": begin, "dur": length, "args": args}
