"""Make a sample folder that runs: reference, candidates, entry, prompt, readme.

An operation is one of FUNCTIONS, element by element, or one of WHOLE.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from profkit.contests.prompt import compose
from profkit.errors import ProfkitError
from profkit.rundir.files import write_atomic
from profkit.targets.sample import resolve

_FORMS = {
    "example_torchcode.py": "reference.py",
    "example_cudacode.py": "cuda.py",
    "example_cppcode.py": "cpp.py",
    "run_code.py": "run_code.py",
    "readme.md": "readme.md",
}
"""Files of an element-wise operation -> their templates; those of WHOLE have no C++."""
_WHOLE_FORMS = {
    "example_torchcode.py": "whole.py",
    "example_cudacode.py": "torch.py",
    "run_code.py": "run_code.py",
    "readme.md": "readme_from.md",
}


@dataclass(frozen=True)
class Function:
    """One element-wise function. `flops`: per element, a special function counted as one."""

    torch: str
    c: str
    flops: int = 1
    positive: bool = False

    @property
    def arity(self) -> int:
        return 2 if "{1}" in self.c else 1


FUNCTIONS = {
    "abs": Function("torch.abs({0})", "fabsf({0})"),
    "add": Function("{0} + {1}", "{0} + {1}"),
    "cos": Function("torch.cos({0})", "cosf({0})"),
    "div": Function("{0} / {1}", "{0} / {1}", positive=True),
    "exp": Function("torch.exp({0})", "expf({0})"),
    "gelu": Function("nn.functional.gelu({0})", "0.5f * {0} * (1.0f + erff({0} * 0.70710678f))", flops=5),
    "leaky_relu": Function("nn.functional.leaky_relu({0})", "{0} < 0.0f ? 0.01f * {0} : {0}", flops=2),
    "log": Function("torch.log({0})", "logf({0})", positive=True),
    "maximum": Function("torch.maximum({0}, {1})", "{0} < {1} ? {1} : {0}"),
    "minimum": Function("torch.minimum({0}, {1})", "{1} < {0} ? {1} : {0}"),
    "mul": Function("{0} * {1}", "{0} * {1}"),
    "relu": Function("torch.relu({0})", "{0} < 0.0f ? 0.0f : {0}"),
    "rsqrt": Function("torch.rsqrt({0})", "1.0f / sqrtf({0})", flops=2, positive=True),
    "sigmoid": Function("torch.sigmoid({0})", "1.0f / (1.0f + expf(-{0}))", flops=4),
    "silu": Function("nn.functional.silu({0})", "{0} / (1.0f + expf(-{0}))", flops=4),
    "sin": Function("torch.sin({0})", "sinf({0})"),
    "sqrt": Function("torch.sqrt({0})", "sqrtf({0})", positive=True),
    "square": Function("torch.square({0})", "{0} * {0}"),
    "sub": Function("{0} - {1}", "{0} - {1}"),
    "swiglu": Function("nn.functional.silu({0}) * {1}", "{0} / (1.0f + expf(-{0})) * {1}", flops=5),
    "tanh": Function("torch.tanh({0})", "tanhf({0})"),
}
WHOLE = {
    "softmax": ("x", "torch.softmax(x, dim=-1)", "torch.randn(*SHAPE)"),
    "layer_norm": ("x", "nn.functional.layer_norm(x, x.shape[-1:])", "torch.randn(*SHAPE)"),
    "matmul": ("x, y", "x @ y", "torch.randn(*SHAPE), torch.randn(*SHAPE[:-2], SHAPE[-1], SHAPE[-2])"),
}
"""Operations that are not element-wise: name -> inputs, PyTorch expression, how the inputs are drawn."""


def create(path: Path, op: str, shape: tuple[int, ...], contestant: str = "") -> list[Path]:
    """Write the folder and return its files. Raises ProfkitError if it exists."""
    if path.exists() and any(path.iterdir()):
        raise ProfkitError(f"{path} exists and is not empty", fix="choose another name, or remove it")
    whole = op.replace(" ", "").replace("layernorm", "layer_norm")
    forms, values = (_WHOLE_FORMS, _whole(whole, shape)) if whole in WHOLE else (_FORMS, _element_wise(op, shape))
    values |= {
        "id": path.name,
        "path": path.as_posix(),
        "lower": re.sub(r"\W", "_", path.name.lower()),
        "contestant": f"参赛者: {contestant}\n\n" if contestant else "",
        "shape": repr(tuple(shape)),
        "shape_text": " x ".join(str(size) for size in shape),
    }
    path.mkdir(parents=True, exist_ok=True)
    templates = files("profkit.contests.gpucodeforces") / "templates"
    for name, form in forms.items():
        text = Template((templates / f"{form}.tmpl").read_text("utf-8")).substitute(values)
        write_atomic(path / name, text.encode())
    write_atomic(path / "prompt.txt", compose(resolve(path)).encode())
    return sorted(path / name for name in [*forms, "prompt.txt"])


def _element_wise(op: str, shape: tuple[int, ...]) -> dict[str, str]:
    function = FUNCTIONS.get(op)
    if function is None:
        raise ProfkitError(
            f"--op {op!r}: not an operation that profkit can write",
            fix=f"{', '.join(WHOLE)}; or element by element {', '.join(FUNCTIONS)}; other samples: make a folder with a "
            "reference and a candidate",
        )
    inputs, count = "xy"[: function.arity], function.arity
    elements, total = math.prod(shape), count + 1
    draw = "torch.rand(*SHAPE) + 0.5" if function.positive else "torch.randn(*SHAPE)"
    result = function.c.format("x_value", "y_value")
    return {
        "op": op,
        "name": op,
        "forward_args": ", ".join(f"{name}: torch.Tensor" for name in inputs),
        "call_args": ", ".join(inputs),
        "torch_expression": function.torch.format("x", "y"),
        "draws": ", ".join([draw] * count),
        "flops_each": str(function.flops),
        "tensors": str(total),
        "signature": ", ".join(f"torch::Tensor {name}" for name in inputs),
        "kernel_args": ", ".join(f"const float* {name}" for name in inputs),
        "first": "x",
        "loads": "\n".join(f"        const float {name}_value = {name}[i];" for name in inputs),
        "body": f"        const float result = {result};",
        "pointers": ", ".join(f"{name}.data_ptr<float>()" for name in inputs),
        "cpu_file": "example_cppcode",
        "cpu_label": "C++",
        "flop_text": f"{function.flops * elements:,}",
        "byte_text": f"{4 * total * elements:,}",
        "intensity": f"{function.flops / (4 * total):.3g}",
    }


def _whole(op: str, shape: tuple[int, ...]) -> dict[str, str]:
    if len(shape) < 2:
        raise ProfkitError(f"--shape {shape[0]}: {op} takes two sizes or more", fix="--shape 4096,8192")
    arguments, expression, draws = WHOLE[op]
    own = {"op": op, "arguments": arguments, "expression": expression, "draws": draws}
    return own | {"cpu_file": "example_cudacode", "cpu_label": "PyTorch"}
