"""What trtexec prints: layer tables of three generations, the summary, cut logs."""

import json
import re

import pytest
from frames import validate

import collectors
from collectors import CollectError, trtexec

ROWS = [
    ("Reformatting CopyNode for Input Tensor 0 to conv 1", 0.0077),
    ("{ForeignNode[embed + (Unnamed Layer* 3) [Shuffle]...add 4]}", 0.8929),
    ("fc 1000", 0.0432),
]
COUNT = 2094
STAMP = "[05/08/2024-14:05:14] [I] "


def table(style, rows=ROWS, count=COUNT, total=True):
    """The lines after the heading; style 10: name behind, 8: before, 7: before and without median."""
    full = sum(mean for _, mean in rows) * count
    rows = [*rows, ("Total", full / count)] if total else rows
    wide = max(len(name) for name, _ in rows) + 2
    lines = {
        10: ["   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer"],
        8: [f"{'Layer':>{wide}}   Time (ms)   Avg. Time (ms)   Median Time (ms)   Time %"],
        7: [f"{'Layer':>{wide}}   Time (ms)   Avg. Time (ms)   Time %"],
    }[style]
    for name, mean in rows:
        time, share = mean * count, 100 * mean * count / full
        lines.append(
            {
                10: f"{time:11.2f} {mean:12.4f} {mean:12.4f} {share:9.1f}   {name}",
                8: f"{name:>{wide}}{time:12.2f}{mean:17.4f}{mean:19.4f}{share:9.1f}",
                7: f"{name:>{wide}}{time:12.2f}{mean:17.2f}{share:9.1f}",
            }[style]
        )
    return lines


SUMMARY = """
=== Device Information ===
Selected Device: NVIDIA A100-SXM4-80GB
Compute Capability: 8.0
=== Performance summary ===
Throughput: 1057.2 qps
Latency: min = 0.93 ms, max = 1.2 ms, mean = 0.951 ms, median = 0.95 ms, percentile(99%) = 1.1 ms
Enqueue Time: min = 0.02 ms, max = 0.2 ms, mean = 0.03 ms, median = 0.03 ms, percentile(99%) = 0.1 ms
GPU Compute Time: min = 0.9 ms, max = 1 ms, mean = 0.941 ms, median = 0.94 ms, percentile(99%) = 0.99 ms
Total Host Walltime: 3.0 s
""".strip().splitlines()


def log(*parts, stamp=STAMP):
    lines = ["&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec --dumpProfile"]
    lines += [stamp + line for part in parts for line in part]
    return "\n".join([*lines, "&&&& PASSED TensorRT.trtexec [TensorRT v8601]", ""])


def heading(count=COUNT):
    return ["", f"=== Profile ({count} iterations ) ==="]


@pytest.fixture
def write(tmp_path):
    def one(text, name="trtexec.log", encoding="utf-8"):
        (tmp_path / name).write_bytes(text.encode(encoding))
        return tmp_path / name

    return one


@pytest.mark.parametrize("style", [10, 8, 7])
@pytest.mark.parametrize("stamp", [STAMP, "[I] ", ""])
def test_the_layers_of_every_generation(write, style, stamp):
    frame = collectors.read(write(log(SUMMARY, heading(), table(style), stamp=stamp)))
    validate(frame)
    assert list(frame["kernel"]) == [name for name, _ in ROWS]
    assert frame["time"].tolist() == pytest.approx([mean * 1e-3 for _, mean in ROWS], rel=2e-3)
    assert set(frame["kind"]) == {"layer"}
    assert (frame["device"].iloc[0], frame["cc"].iloc[0]) == ("NVIDIA A100-SXM4-80GB", "8.0")


def test_what_stands_between_and_round_the_rows_is_passed_over(write):
    rows = table(10)
    text = log(heading(), rows)
    powershell = write("\ufeff" + text.replace("\n", "\r\n"), "a.log", encoding="utf-16-le")
    warned = write(text.replace(STAMP + rows[2], f"{STAMP[:-4]}[W] beware\n{STAMP}{rows[2]}"), "b.log")
    assert len(collectors.read(powershell)) == len(collectors.read(warned)) == 3
    other = "Throughput: high\n" + log(SUMMARY, stamp="[INFO] " + STAMP)
    assert collectors.read(write(other))["time"].item() == pytest.approx(0.941e-3)
    # The mean has more digits than are printed.
    frame = collectors.read(write(log(heading(), table(7, [("small", 0.0041), ("large", 2.5)]))))
    assert frame["time"].iloc[0] == pytest.approx(4.1e-6, rel=2e-3)


def test_the_layers_are_checked_against_it(write):
    frame = collectors.read(write(log(SUMMARY, heading(), table(10))))
    assert not any("do not add up" in caveat.what for caveat in frame.attrs["caveats"])
    slow = [line.replace("median = 0.95", "median = 2.95") for line in SUMMARY]
    frame = collectors.read(write(log(slow, heading(), table(10))))
    assert any("do not add up" in caveat.what for caveat in frame.attrs["caveats"])


def test_a_summary_alone_is_one_row_with_a_caveat(write):
    frame = collectors.read(write(log(SUMMARY)))
    assert list(frame["kernel"]) == ["whole network"]
    assert frame["time"].iloc[0] == pytest.approx(0.941e-3)
    assert any("no layers" in caveat.what and "--dumpProfile" in caveat.fix for caveat in frame.attrs["caveats"])


def test_layer_information_joins_a_log(write):
    layers = {"Layers": [{"Name": name, "LayerType": "Convolution", "Inputs": [], "Outputs": []} for name, _ in ROWS]}
    info = write(json.dumps(layers), "layers.json")
    frame = trtexec.read(write(log(heading(), table(10))), layers=info)
    assert not any("not in the layer information" in one.what for one in frame.attrs["caveats"])
    assert any("modelled" in one.what for one in frame.attrs["caveats"])


@pytest.mark.parametrize("style", [10, 8])
def test_a_cut_log_is_refused_or_whole(write, style):
    text = log(heading(), table(style))
    end = text.index("&&&& PASSED")
    for cut in range(text.index("=== Profile"), end, 3):
        try:
            frame = collectors.read(write(text[:cut]), "trtexec")
        except CollectError:
            continue
        # Only the Total row's own last figures may be missing.
        assert len(frame) == 3
        assert frame["time"].tolist() == pytest.approx([mean * 1e-3 for _, mean in ROWS], rel=2e-3)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (log(heading(), ["what is this"]), "expected the columns"),
        (log(heading(), table(10)[:1]), "no layer after"),
        (log(heading(), table(10, total=False)[:3]), "no Total row"),
        (log(heading(), [*table(10)[:2], *table(10)[3:]]), "add up"),
        (log(SUMMARY, SUMMARY[-2:]), "GPU Compute Time occurs twice"),
        (log(["=== Performance summary ===", "GPU Compute Time: min = 0.9 ms, max = 1 ms, mean = 0."]), "without"),
        (log(["Building engine"]), "without a layer profile"),
    ],
)
def test_what_is_no_profile_is_refused(write, text, word):
    with pytest.raises(CollectError, match=word):
        collectors.read(write(text))


def scaled(factor):
    """The summary of a run that takes so many times as long."""
    return [re.sub(r"= ([\d.]+) ms", lambda found: f"= {float(found[1]) * factor:.4g} ms", line) for line in SUMMARY]


def batches(*sizes, layers=False):
    """The log of a shell loop over batch sizes, and the GPU time [s] of each run."""
    text = ""
    for size in sizes:
        rows = [heading(), table(10, [(name, mean * size) for name, mean in ROWS])] if layers else []
        text += log(scaled(size), *rows).replace(
            "# trtexec --dumpProfile",
            f"# /opt/bin/trtexec --onnx=/home/me/resnet50.onnx --fp16 --shapes=x:{size}x3x8x8 --exportTimes=t{size}.json",
        )
    return text, [size * (sum(mean for _, mean in ROWS) if layers else 0.941) * 1e-3 for size in sizes]


@pytest.mark.parametrize("layers", [False, True])
def test_every_run_of_a_log_of_several_is_a_range(write, layers):
    text, times = batches(1, 4, 16, layers=layers)
    frame = collectors.read(write(text))
    validate(frame)
    names = ["run 1", "run 2", "run 3"]
    assert list(frame["range"].unique()) == names
    assert frame.groupby("range")["time"].sum()[names].tolist() == pytest.approx(times, rel=2e-3)
    assert frame["launch"].tolist() == [*range(len(frame))]
    told = [caveat for caveat in frame.attrs["caveats"] if caveat.what.startswith("several runs")]
    assert [caveat.how_much for caveat in told] == ["3 runs"]


def test_the_exports_of_one_run_are_not_given_to_several(write):
    text, _ = batches(1, 4, layers=True)
    info = write(json.dumps({"Layers": [name for name, _ in ROWS]}), "layers.json")
    with pytest.raises(CollectError, match=r"2 runs \(at lines 1, "):
        trtexec.read(write(text), layers=info)
