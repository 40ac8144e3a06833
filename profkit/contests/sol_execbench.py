"""A problem of SOL-ExecBench: definition.json, workload.jsonl and solution*.json.

Source of the format: NVIDIA/SOL-ExecBench, docs/ and examples/.
"""

from __future__ import annotations

from pathlib import Path

from profkit.contests.definitions import Dialect, solutions_in, task
from profkit.contests.json_files import read_object, read_rows
from profkit.contests.sources import Sources

DEFINITION, WORKLOADS = "definition.json", "workload.jsonl"

_PROMISED = '''
def _promised(name, value):
    """A random tensor within what its name promises, as the contest draws it; a norm's weights and biases vary a
    little all the same, so that an answer without them is wrong."""
    kind, bare = value.dtype, name.rstrip("0123456789")
    if not value.is_floating_point() or value.element_size() < 2:
        return value
    norm = bare == "norm" or bare.removesuffix("_weight").removesuffix("_bias").endswith("norm")
    if norm and bare.endswith(("_weight", "_bias")):
        return value * 0.1 + (1 if bare.endswith("_weight") else 0)
    if bare in ("attention_mask", "causal_mask") and value.dim() > 1 and value.shape[-1] == value.shape[-2]:
        return _torch.full_like(value, _torch.finfo(kind).min).triu_(1)
    if bare in ("x_mask", "text_mask", "aspect_ratio_mask", "drop_mask", "attention_mask"):
        return (value > 0).to(kind)
    if bare in ("cos", "sin", "cos_cached", "sin_cached", "rope_cos", "rope_sin"):
        return (_torch.cos if "cos" in bare else _torch.sin)(value.float().clamp_(-3.14159, 3.14159)).to(kind)
    if bare.split("_")[-1] in ("rstd", "std", "variance", "var"):
        return value.abs() + 0.1
    if bare in ("A", "A_log", "g", "A_cumsum"):
        low, high = {"A": (-1, -0.001), "A_log": (-5, -1), "g": (-5, 0), "A_cumsum": (-0.1, 0)}[bare]
        drawn = _torch.rand_like(value) * (high - low) + low
        return drawn.cumsum(-1) if bare == "A_cumsum" else drawn
    if bare in ("attn_weights", "attention_weights", "routing_weights"):
        return value.float().softmax(-1).to(kind)
    matrix = bare == "weight" or bare.endswith(("_weight", "_weights", "_proj", "_projs", "_weight_matrix"))
    return value / value.shape[-1] ** 0.5 if matrix and value.dim() > 1 else value
'''.strip()


def tasks(path: Path) -> list[Path]:
    """The folder itself if it is a problem."""
    return [path] if (path / DEFINITION).is_file() and (path / WORKLOADS).is_file() else []


def read(folder: Path, device: str) -> Sources:
    """Sample of a problem's folder; its solutions are the .json files that name it."""
    definition = read_object(folder / DEFINITION)
    solutions = solutions_in([folder], str(definition.get("name", "")))
    dialect = Dialect(_PROMISED, "zeros", folder)
    return task(definition, list(read_rows(folder / WORKLOADS)), solutions, dialect, folder / DEFINITION).on(device)
