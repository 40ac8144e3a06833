"""Small samples for the tests: an honest reference and candidates that go wrong in every way we name."""

import csv
from pathlib import Path

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
    def forward(self, x):
        return torch.relu(x @ self.weight)

def get_inputs():
    return [torch.randn(8, 32)]

def get_init_inputs():
    return [torch.randn(32, 16)]
"""

_HEAD = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
    def forward(self, x):
"""

BODIES = {
    "honest": "return torch.clamp_min(x @ self.weight, 0)",
    "mismatch": "return torch.relu(x @ self.weight) * 1.01",
    "nan": "return torch.relu(x @ self.weight) / 0 * 0",
    "wrong-shape": "return torch.relu(x @ self.weight)[:4]",
    "wrong-dtype": "return torch.relu(x @ self.weight).double()",
    "wrong-device": "return torch.relu(x @ self.weight).to('meta')",
    "wrong-type": "return 'a string'",
    "error": "raise RuntimeError('kernel launch failed: too many resources')",
    "crash": "import os, signal; print('about to die', flush=True); os.kill(os.getpid(), signal.SIGSEGV)",
    "corrupt": "torch.cuda.is_initialized, torch.cuda._lazy_init = lambda: True, self.lost; self.lost()\n\n    def lost(self, *_):\n"
    "        raise RuntimeError('CUDA error: an illegal memory access was encountered')",
    "exit": "import os; os._exit(0)",
    "hang": "import time; print('still here', flush=True)\n        while True: time.sleep(1)",
    "loud": "print('x' * 200 + '\\n', end='', flush=True)\n        print('y' * 3_000_000)\n        return torch.relu(x @ self.weight)",
    "mutates": "x.mul_(2)\n        return torch.relu((x / 2) @ self.weight)",
}

COMPILE_ERROR = """
import os
from pathlib import Path

from torch import nn
from torch.utils.cpp_extension import load

source = Path(os.environ["TORCH_EXTENSIONS_DIR"], "broken.cpp")
source.write_text("int f(int x) { return x + ; }")  # without torch's headers, which take long to read
module = load(name="profkit_test_broken", sources=[str(source)], verbose=True)

class ModelNew(nn.Module):
    def forward(self, x):
        return module.f(x)
"""

LOAD_ERROR = "import torch\nraise ValueError('no such architecture')\nclass ModelNew(torch.nn.Module): ...\n"


def task(body: str, drawn: str, given: str = "x") -> str:
    """Source of a reference without weights."""
    return (
        f"import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, {given}):\n        return {body}\n\n"
        f"def get_inputs():\n    return [{drawn}]\n\ndef get_init_inputs():\n    return []\n"
    )


ANSWERS = "import torch\n\nclass ModelNew(torch.nn.Module):\n    calls = 0\n\n    def forward(self, x):\n"
"""Source of a candidate without weights up to what it does."""


def candidate(kind: str) -> str:
    """Source of a candidate of this kind."""
    if kind == "compile-error":
        return COMPILE_ERROR
    if kind == "load-error":
        return LOAD_ERROR
    return f"{_HEAD}        {BODIES[kind]}\n"


def write_sample(root: Path, *kinds: str, name: str = "ITESTS") -> Path:
    """A sample folder whose candidates are named after what is wrong with them."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "example_torchcode.py").write_text(REFERENCE)
    for kind in kinds:
        (folder / f"{kind.replace('-', '_')}.py").write_text(candidate(kind))
    return folder


def timings(run):
    with (run.path / "timings.csv").open() as stream:
        return list(csv.DictReader(stream))
