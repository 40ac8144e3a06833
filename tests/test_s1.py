"""The samples under S1 keep the contest's form, and say the same thing in code, readme and prompt."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

S1 = Path(__file__).resolve().parent.parent / "S1"
SAMPLES = sorted(p for p in S1.iterdir() if p.is_dir() and not p.name.startswith(("_", ".")))
PIPES = {"fp64", "fp32", "fp16", "tensor_fp64", "tensor_tf32", "tensor_bf16", "tensor_fp16"}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def trees(sample):
    return {p.name: ast.parse(p.read_text("utf-8"), str(p)) for p in sorted(sample.glob("*.py"))}


def defined(tree):
    return {n.name for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}


def load_reference(sample):
    spec = importlib.util.spec_from_file_location(f"s1_{sample.name}", sample / "example_torchcode.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def candidates():
    return [
        pytest.param(sample / name, id=f"{sample.name}/{name}")
        for sample in SAMPLES
        for name, tree in trees(sample).items()
        if "ModelNew" in defined(tree)
    ]


def load_inline_names(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "load_inline":
            yield next(k.value.value for k in node.keywords if k.arg == "name")


def test_there_are_samples():
    assert len(SAMPLES) >= 10
    assert "ICVXKH" in {s.name for s in SAMPLES}
    assert all(re.fullmatch(r"I[A-Z]{5}", s.name) for s in SAMPLES)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_roles(sample):
    found = {name: defined(tree) for name, tree in trees(sample).items()}
    references = [n for n, names in found.items() if {"Model", "get_inputs", "get_init_inputs"} <= names]
    assert references == ["example_torchcode.py"]
    assert any("ModelNew" in names for names in found.values())
    assert not any({"Model", "ModelNew"} <= names for names in found.values())
    assert {"run_code.py", "prompt.txt", "readme.md"} <= {p.name for p in sample.iterdir()}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_readme(sample):
    text = (sample / "readme.md").read_text("utf-8")
    section = re.search(r"^## Where it should fall\n\n(.*?)\n\n## ", text, re.M | re.S)
    assert section, "no section 'Where it should fall'"
    assert len(section[1].splitlines()) == 2
    assert ("is invented" in text) == (sample.name != "ICVXKH")
    listed = set(re.findall(r"^- `(\S+)`:", text, re.M))
    assert listed == {p.name for p in sample.iterdir() if p.is_file()} - {"readme.md"}
    assert f"profkit profile S1/{sample.name}\n" in text
    assert re.search(rf"\| \[{sample.name}\]", (S1 / "README.md").read_text("utf-8"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_prompt_holds_the_reference_and_closes_its_fences(sample):
    prompt = (sample / "prompt.txt").read_text("utf-8")
    reference = (sample / "example_torchcode.py").read_text("utf-8")
    assert prompt.endswith(f"```python\n{reference}```\n")
    blocks = re.findall(r"^```python\n(.*?)^```$", prompt, re.M | re.S)
    assert prompt.count("```") == 2 * len(blocks) == 6
    before, example, _ = (defined(ast.parse(block)) for block in blocks)
    assert "Model" in before
    assert example == {"ModelNew"}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_run_code(sample):
    text = (sample / "run_code.py").read_text("utf-8")
    compile(text, "run_code.py", "exec")
    constants = {
        n.targets[0].id: n.value
        for n in ast.parse(text).body
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
    }
    assert len(ast.literal_eval(constants["SEEDS"])) >= 2
    for needed in ("torch.manual_seed(seed)", "@torch.no_grad()", "WARMUP", "elapsed_time", "scratch.zero_()"):
        assert needed in text
    named = re.findall(r'(?:from |")(example_\w+|cudacode_\w+)(?: import|":)', text)
    assert all((sample / f"{name}.py").is_file() for name in named)


def test_load_inline_names_are_unique():
    names = [name for path in S1.glob("*/*.py") for name in load_inline_names(path)]
    names += re.findall(r'name="(prompt_\w+)"', (SAMPLES[0] / "prompt.txt").read_text("utf-8"))
    assert names
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", candidates())
def test_candidates_check_and_launch_properly(path):
    text = path.read_text("utf-8")
    launches = len(re.findall(r"<<<", text))
    assert text.count("C10_CUDA_KERNEL_LAUNCH_CHECK();") == launches
    if launches:
        assert text.count("CUDAGuard guard(") == 1
        assert "getCurrentCUDAStream()" in text
    if "load_inline" in text:
        for checked in ("TORCH_CHECK", "scalar_type()"):
            assert checked in text
    else:
        assert "raise ValueError" in text
    assert not re.search(r"torch\.(matmul|softmax|relu|sum|addcmul)\(|F\.|nn\.functional", text)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_declared_work_is_sane(sample):
    work = load_reference(sample).get_work()
    assert set(work) == {"flops", "bytes"}
    assert set(work["flops"]) <= PIPES
    assert all(isinstance(v, int) and v > 0 for v in [*work["flops"].values(), work["bytes"]])


def test_declared_bytes_follow_from_the_tensors():
    """The smallest sample, run for real: bytes of inputs, parameters and output are what get_work says."""
    assert load_reference(S1 / "ICVXKH").get_work()["flops"] == {"fp32": 67_141_632}, "the contest's own figure"
    for name in ("ICVXKH", "ICMTNY"):
        reference = load_reference(S1 / name)
        model = reference.Model(*reference.get_init_inputs()).eval()
        inputs = reference.get_inputs()
        tensors = [*inputs, *model.parameters(), model(*inputs)]
        assert reference.get_work()["bytes"] == sum(t.numel() * t.element_size() for t in tensors)


@pytest.mark.slow
@pytest.mark.xdist_group("icvxkh")
def test_icvxkh_run_code_prints_the_contest_s_lines(tmp_path, monkeypatch, request):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        from profkit.guest.build.loading import build_key
        from profkit.launch.cache import builds

        request.getfixturevalue("fewer_headers")
        # Where `profkit profile` builds it, as test_examples.py does.
        place = builds() / build_key(S1 / "ICVXKH/example_cppcode.py")
        place.mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(place))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    argv = [sys.executable, str(S1 / "ICVXKH" / "run_code.py")]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    dashes = "-" * 20
    lines = [
        rf"{dashes} 精度对齐验证 {dashes}",
        r"最大差异: [0-9]+\.[0-9]{6}",
        r"平均差异: [0-9]+\.[0-9]{6}",
        r"✅ 精度对齐：两个模型的输出结果非常接近。",
        r"",
        rf"{dashes} 性能加速比测试 {dashes}",
        r"PyTorch \(matmul \+ relu\) 平均执行时间: [0-9]+\.[0-9]{6,} 秒",
        r"自定义 (CUDA|C\+\+) ReLU 平均执行时间: [0-9]+\.[0-9]{6,} 秒",
        r"加速比 \(Speedup\): [0-9]+\.[0-9]{2}x",
    ]
    # A build may write lines of its own to stdout first.
    printed = done.stdout.splitlines()[-len(lines) :]
    assert len(printed) == len(lines)
    for line, pattern in zip(printed, lines, strict=True):
        assert re.fullmatch(pattern, line), (line, pattern)
