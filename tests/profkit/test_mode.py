"""Modules are judged in eval mode, or as they are constructed: by the sample's `mode`, or as it is asked."""

import pytest
from corpora import RUN

from profkit.api import profile

pytestmark = pytest.mark.usefixtures("private_cache")
NORM = """
import torch
{mode}
class {name}(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, x):
        return {body}

def get_inputs():
    return [torch.randn(32, 8)]

def get_init_inputs():
    return []
"""
BY_BATCH = "torch.nn.functional.batch_norm(x, None, None, self.norm.weight, self.norm.bias, training=True)"
BY_STATISTICS = (
    "(x - self.norm.running_mean) * (self.norm.running_var + 1e-5).rsqrt() * self.norm.weight + self.norm.bias"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("mode") / "INORM"
    root.mkdir()
    (root / "reference.py").write_text(NORM.format(mode="", name="Model", body="self.norm(x)"))
    bodies = {"same": "self.norm(x)", "by_batch": BY_BATCH, "by_statistics": BY_STATISTICS}
    for name, body in bodies.items():
        (root / f"{name}.py").write_text(NORM.format(mode="", name="ModelNew", body=body))
    return root


def right(folder, tmp_path, **asked):
    run = profile(folder, runs=tmp_path / "runs", **RUN, **asked)
    return {impl.name: impl.status for impl in run.manifest.candidates}


def test_eval_mode_is_the_default(folder, tmp_path):
    assert right(folder, tmp_path) == {"same": "ok", "by_batch": "mismatch", "by_statistics": "ok"}


def test_as_constructed_running_statistics_count(folder, tmp_path):
    found = right(folder, tmp_path, mode="train")
    # The answer is right, and the statistics are left as they were.
    assert found == {"same": "ok", "by_batch": "mismatch", "by_statistics": "mismatch"}


def test_a_mode_that_there_is_not_is_refused(folder, tmp_path):
    (folder / "reference.py").write_text(NORM.format(mode='mode = "fast"', name="Model", body="self.norm(x)"))
    run = profile(folder, runs=tmp_path / "runs", **RUN)
    assert run.manifest.reference.status == "load-error"
    assert "mode = 'fast'" in run.manifest.reference.reason
