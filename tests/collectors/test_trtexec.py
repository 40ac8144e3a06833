"""trtexec JSON: layers with bytes, FLOP and their ceiling; invalid and cut JSON; the recorded fixtures."""

import json
import math
from pathlib import Path

import pytest
from frames import validate

import collectors
from collectors import CollectError, trtexec
from collectors.trtexec.layers import element_size, flop, layer, tactic_compute

SHARED = Path(__file__).parents[3] / "shared" / "data" / "trtexec"
TF32 = "sm80_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x32x64_stage5_g1_tensor16x8x8_t1r1s1"


def profile_text(rows, count=100, median=True) -> str:
    """As sampleReporting.cpp writes it: names unescaped, the comma at the start of the line."""
    lines = ["[", f'  {{ "count" : {count} }}']
    for name, time in rows:
        middle = f', "medianMs" : {time}' if median else ""
        lines.append(
            f', {{ "name" : "{name}", "timeMs" : {time * count}, "averageMs" : {time}{middle}, "percentage" : 1.5 }}'
        )
    return "\n".join([*lines, "]", ""])


def tensor(dims, text="Row major linear FP32"):
    return {"Name": "t", "Location": "Device", "Dimensions": dims, "Format/Datatype": text}


def conv(name="conv", tactic=TF32, text="Row major linear FP32", **more):
    return {
        "Name": name,
        "LayerType": "CaskConvolution",
        "ParameterType": "Convolution",
        "Inputs": [tensor([2, 8, 16, 16], text)],
        "Outputs": [tensor([2, 4, 16, 16], text)],
        "Kernel": [3, 3],
        "OutMaps": 4,
        "Groups": 1,
        "Weights": {"Type": "Float", "Count": 288},
        "Bias": {"Type": "Float", "Count": 4},
        "TacticName": tactic,
        **more,
    }


def files(tmp_path, rows, layers):
    profile, graph = tmp_path / "profile.json", tmp_path / "graph.json"
    profile.write_text(profile_text(rows))
    graph.write_text(json.dumps({"Layers": layers, "Bindings": ["in", "out"]}, indent=1))
    return profile, graph


def whats(frame) -> str:
    return "\n".join(one.what for one in frame.attrs["caveats"])


def test_layer_times_bytes_and_flop(tmp_path):
    profile, graph = files(tmp_path, [("conv", 0.5), ("pool", 0.25)], [conv(), {"Name": "pool", "LayerType": "Pool"}])
    frame = validate(trtexec.read(profile, graph))
    assert frame["kind"].unique().tolist() == ["layer"]
    assert frame["time"].tolist() == pytest.approx([5e-4, 2.5e-4])
    assert frame["op_tensor_tf32"][0] == 2 * 2 * 256 * 288
    assert math.isnan(frame["op_tensor_tf32"][1])
    assert frame["dram_read"][0] == 2 * 8 * 256 * 4 + 292 * 4
    assert frame["dram_write"][0] == 2 * 4 * 256 * 4
    assert "modelled" in whats(frame)


@pytest.mark.parametrize(
    ("tactic", "compute"),
    [
        (TF32, "tensor_tf32"),
        ("ampere_scudnn_128x64_relu_xregs_large_nn_v1", "fp32"),
        ("turing_h1688cudnn_256x64_ldg8_relu_exp_small_nhwc_tn_v1", "tensor_fp16"),
        ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", "tensor_fp16"),
        ("volta_h884cudnn_256x64_ldg8_relu_exp_interior_nhwc_tn_v1", "tensor_fp16"),
        ("ampere_h16816gemm_64x64_ldg8_stages_64x6_nn_v1", "tensor_fp16"),
        ("sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize1_tensor16x8x16", "tensor_fp16"),
        ("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x64x32_tensor16x8x16", "tensor_bf16"),
        ("sm90_xmma_gemm_e4m3e4m3_e4m3f32_f32_tn_n_tilesize128x128_tensor64x128x32", "tensor_fp8"),
        ("sm75_xmma_fprop_implicit_gemm_interleaved_i8i8_i8i32_f32_nchw_vect_c_32_tensor8x8x16", "tensor_int8"),
        ("turing_fp16_i8816cudnn_int8_128x128_ldg16_relu_small_nt_v1", "tensor_int8"),
        ("volta_int8x4_icudnn_int8x4_128x32_relu_xregs_medium_c32_nn_v1", ""),
        ("sm70_xmma_fprop_conv1x1_f32f32_f32_f32_nchw_simt_small_batch_bias_relu", "fp32"),
        ("volta_hcudnn_128x32_relu_small_nn_v1", "fp16"),
        ("0x1a2b", ""),
    ],
)
def test_the_tactic_names_the_roof(tactic, compute):
    assert tactic_compute(tactic) == compute


def test_without_tactic_the_format_tells_or_nothing():
    half = layer(conv(tactic="", text="Two wide channel vectorized row major FP16 format"))
    assert half.compute == "tensor_fp16"
    assert layer(conv(tactic="")).compute == ""  # fp32 or tf32: not known
    depthwise = layer(conv(tactic="", text="Int8", LayerType="CudaDepthwiseConvolution"))
    assert depthwise.compute == ""


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("Row major linear FP32", 4),
        ("Half", 2),
        ("BFloat16", 2),
        ("Thirty-two wide channel vectorized row major Int8 format", 1),
        ("Row major linear FP8", 1),
        ("Int64", 8),
        ("Row major Int4", 0.5),
        ("Bool", 1),
        ("Float", 4),
        ("Int32", 4),
    ],
)
def test_element_sizes(text, size):
    assert element_size(text) == size


def test_unknown_is_nan_never_zero():
    assert math.isnan(element_size("N/A due to dynamic shapes"))
    dynamic = layer(conv(Inputs=[tensor([-1, 8, 16, 16])]))
    assert math.isnan(dynamic.read)
    assert math.isnan(flop({"LayerType": "Shuffle", "Outputs": [tensor([2, 3])]}))
    assert math.isnan(flop(conv(Outputs=[tensor([-1, 4, 16, 16])])))


def test_flop_of_other_products():
    product = {"ParameterType": "MatrixMultiply", "Outputs": [tensor([3, 64, 32])]}
    for left, right in (([3, 64, 16], [3, 16, 32]), ([3, 16, 64], [3, 32, 16])):
        assert flop({**product, "Inputs": [tensor(left), tensor(right)]}) == 2 * 3 * 64 * 32 * 16
    odd = {**product, "Inputs": [tensor([3, 64, 16]), tensor([1, 16, 32])]}
    assert math.isnan(flop(odd))
    full = {
        "ParameterType": "FullyConnected",
        "Inputs": [tensor([5, 8, 1, 1])],
        "Outputs": [tensor([5, 4, 1, 1])],
        "Weights": {"Count": 32},
    }
    assert flop(full) == 2 * 5 * 32
    up = conv(ParameterType="Deconvolution", LayerType="CaskDeconvolution")
    assert flop(up) == 2 * 2 * 256 * 288
    grouped = conv(Weights=None, Groups=4)
    assert flop(grouped) == 2 * 2 * 256 * (9 * 4 * 8 / 4)


def test_names_only_layer_information(tmp_path):
    profile, graph = files(tmp_path, [("a", 1.0), ("b", 2.0)], ["a", "b"])
    frame = trtexec.read(profile, graph)
    assert frame["time"].tolist() == pytest.approx([1e-3, 2e-3])
    assert "names only" in whats(frame)
    assert frame["dram_bytes"].isna().all()


def test_layers_match_by_name_when_the_order_differs(tmp_path):
    profile, graph = files(tmp_path, [("b", 2.0), ("a", 1.0), ("c", 1.0)], [conv("a"), conv("b")])
    frame = trtexec.read(profile, graph)
    assert not math.isnan(frame["op_tensor_tf32"][0])
    assert math.isnan(frame["op_tensor_tf32"][2])
    assert "not in the layer information" in whats(frame)
    other = files(tmp_path, [("x", 2.0)], [conv("a")])
    with pytest.raises(CollectError, match="no layer of the profile"):
        trtexec.read(*other)


def test_count_one_and_fused_layers_are_caveats(tmp_path):
    layers = [conv("a"), {"Name": "{ForeignNode[x...y]}", "LayerType": "Myelin"}]
    profile, graph = files(tmp_path, [("a", 0), ("{ForeignNode[x...y]}", 3.0)], layers)
    profile.write_text(profile.read_text().replace('"count" : 100', '"count" : 1'))
    found = whats(trtexec.read(profile, graph))
    assert "single iteration" in found
    assert "Myelin" in found


def test_broken_json_names_line_and_column(tmp_path):
    path = tmp_path / "p.json"
    path.write_text(profile_text([("a", 1.0), ("b", 2.0)]).replace('"averageMs" : 2.0', '"averageMs" 2.0'))
    with pytest.raises(CollectError, match="line 4, column"):
        trtexec.read(path)
    path.write_text(profile_text([("a", 1.0)]).replace('"averageMs" : 1.0', '"averageMs" : "1.0"'))
    with pytest.raises(CollectError, match=r"float.*averageMs"):
        trtexec.read(path)


def test_cut_at_every_byte(tmp_path):
    profile, graph = files(tmp_path, [("a", 1.0), ("b", 2.0)], [conv("a"), conv("b")])
    for path, whole in ((profile, profile.read_bytes()), (graph, graph.read_bytes())):
        for at in range(len(whole.rstrip())):
            path.write_bytes(whole[:at])
            with pytest.raises(CollectError):
                trtexec.read(path)
        path.write_bytes(whole)


def test_the_latency_of_iterations_is_held_against_the_layers(tmp_path):
    profile, times = tmp_path / "p.json", tmp_path / "t.json"
    profile.write_text(profile_text([("a", 1.0)]))
    for latency, told in ((1.0, False), (9.0, True)):
        times.write_text(json.dumps([{"startEnqMs": 1, "latencyMs": latency}] * 3))
        assert ("do not add up" in whats(trtexec.read(profile, times=times))) == told
    with pytest.raises(CollectError, match="pass it as times="):
        trtexec.read(times)


needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="recorded exports are not here")


@needs_shared
def test_recorded_a100_fp32():
    frame = validate(
        trtexec.read(
            SHARED / "A100.fp32.profile.json", SHARED / "A100.fp32.graph.json", times=SHARED / "A100.fp32.timing.json"
        )
    )
    assert len(frame) == 32
    assert (frame["time"] == 0).sum() == 8
    assert "sum / median latency = 1.067" in [one.how_much for one in frame.attrs["caveats"]]
    row = frame[frame["kernel"] == "Conv_26"].iloc[0]
    assert row["op_tensor_tf32"] == pytest.approx(7.40e9, rel=1e-3)
    assert row["op_tensor_tf32"] / row["time"] == pytest.approx(96.3e12, rel=1e-3)
    timed = frame[frame["time"] > 0]
    assert (timed["dram_bytes"] / timed["time"]).max() == pytest.approx(1674e9, rel=1e-3)


def test_a_file_of_two_runs_says_so(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(profile_text([("conv", 1.0)]) * 2)
    with pytest.raises(CollectError, match="Extra data") as caught:
        collectors.read(path)
    assert "file of its own" in caught.value.fix
