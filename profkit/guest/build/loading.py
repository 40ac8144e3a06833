"""Import and construct the user's modules, each with its own namespace and build directory."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.nn.modules import module as registry
from torch.nn.parameter import is_lazy

from profkit.guest.tensors import inputs, weights

_CACHES = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "CUPY_CACHE_DIR": "cupy",
    "NUMBA_CACHE_DIR": "numba",
    "TILELANG_CACHE_DIR": "tilelang",
    "CUDA_CACHE_PATH": "driver",
}
"""Compilers' cache variables -> subdirectory of the build directory."""


class BuildLock:
    """A build directory, shared until the process ends; inside `with` later comers wait.

    It is a kernel lock (flock), so it ends with its owner and is never stale.
    """

    def __init__(self, file: Path, cache: Path) -> None:
        self.path = cache / build_key(file)
        self.path.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o644)

    def __enter__(self) -> BuildLock:
        """Wait for another process that builds this source, then use the directory.

        Triton compiles at the first call and some samples in `__init__`, so `use` precedes each turn.
        """
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Nobody else is here, so torch's own lock files in the directory are stale.
            for stale in self.path.rglob("lock"):
                with contextlib.suppress(OSError):
                    stale.unlink()
        except OSError:
            self.__exit__()
        use(self)
        return self

    def __exit__(self, *_: object) -> None:
        # Some network file systems have no locks.
        with contextlib.suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_SH)


def build_key(file: Path) -> str:
    """Identity of a build: source and everything that decides how it is compiled."""
    parts = [file.read_bytes()]
    parts += [sibling.read_bytes() for sibling in sorted(file.parent.glob("*.cu*")) if sibling.is_file()]
    variables = [os.environ.get(name, "") for name in ("TORCH_CUDA_ARCH_LIST", "CXX", "CFLAGS", "NVCC_APPEND_FLAGS")]
    facts = (str(torch.__version__), platform.python_version(), *variables, platform.machine())
    digest = hashlib.sha256(b"\0".join(parts))
    digest.update("\0".join(facts).encode())
    return digest.hexdigest()[:24]


def use(lock: BuildLock) -> None:
    """Point the compilers' caches to a build directory."""
    os.environ["TORCH_EXTENSIONS_DIR"] = str(lock.path)
    for name, folder in _CACHES.items():
        os.environ[name] = str(lock.path / folder)


def one_architecture(device: torch.device) -> None:
    """Compile only for this chip; compiling for all takes two to three times as long."""
    major, minor = torch.cuda.get_device_capability(device)
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", f"{major}.{minor}")


def with_line_tables() -> None:
    """Have nvcc add line tables, which do not change the code. Triton adds them itself."""
    said = os.environ.get("NVCC_APPEND_FLAGS", "")
    if "-lineinfo" not in said.split():
        os.environ["NVCC_APPEND_FLAGS"] = f"{said} -lineinfo".strip()


def import_file(file: Path, name: str, content: bytes = b"") -> ModuleType:
    """Import an implementation's file as its own module; its folder is importable meanwhile.

    content: source to run instead of the file's current content.
    """
    name = f"profkit_sample_{name.replace('-', '_')}"
    code = compile(content or file.read_bytes(), str(file), "exec", dont_inherit=True)
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, None, origin=str(file)))
    module.__file__ = str(file)
    sys.modules[name] = module
    # After the standard library, so a statistics.py beside the sample does not shadow it.
    at = next((n for n, place in enumerate(sys.path) if place.endswith("-packages")), len(sys.path))
    sys.path.insert(at, str(file.parent))
    try:
        exec(code, module.__dict__)
    finally:
        sys.path.remove(str(file.parent))
    return module


_COMPILERS = re.compile(
    "Error building extension|Error compiling objects|triton.compiler|CompilationError|Ninja is required|CalledProcessError|"
    "PTXASError"
)


def is_compile_error(error: BaseException) -> bool:
    """Whether an exception came from a compiler."""
    return bool(_COMPILERS.search(f"{type(error).__module__}.{type(error).__name__}: {error}"))


TRAIN, EVAL = "train", "eval"


def instance(
    module: ModuleType,
    class_name: str,
    init: list[Any],
    seed: int,
    device: torch.device,
    dtype: torch.dtype | None = None,
    mode: str = EVAL,
) -> torch.nn.Module:
    """Construct `class_name(*init)` at this seed on the device, floating weights as `dtype`."""
    inputs.torch_seed(seed)
    keywords: dict[str, Any] = {}
    if len(init) == 2 and isinstance(init[0], (list, tuple)) and isinstance(init[1], dict):
        # KernelBook's [arguments, keywords].
        init, keywords = init
    model = getattr(module, class_name)(*init, **keywords)
    if not isinstance(model, torch.nn.Module):
        return model
    model = model.to(device, dtype)
    return model.eval() if mode == EVAL else model


def mode_of(module: ModuleType, asked: str) -> str:
    """Mode of a sample: the option, else its reference's `mode`, else eval. Raises ValueError."""
    mode = asked or str(getattr(module, "mode", EVAL))
    if mode not in (TRAIN, EVAL):
        raise ValueError(f"mode = {mode!r}: it is {TRAIN!r} or {EVAL!r}")
    return mode


def take_weights(model: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Load weights into a model with all these names and shapes; else leave it unchanged."""
    own = model.state_dict()
    if all(name in own and (is_lazy(own[name]) or own[name].shape == one.shape) for name, one in weights.items()):
        # A constructor may have moved its weights in inference mode, where alone they can be written then.
        with torch.inference_mode():
            model.load_state_dict({k: v for k, v in weights.items() if not _rearranged(own[k], v)}, strict=False)


def _rearranged(own: torch.Tensor, given: torch.Tensor) -> bool:
    """Whether a tensor holds another's numbers in another order."""
    if is_lazy(own) or own.dtype != given.dtype or own.layout is not torch.strided or given.layout is not torch.strided:
        return False
    # Not sortable.
    if own.is_complex() or (own.is_floating_point() and own.element_size() < 2):
        return False
    mine, other = own.detach().reshape(-1), given.detach().reshape(-1).to(own.device)
    return not torch.equal(mine, other) and torch.equal(mine.sort().values, other.sort().values)


@contextlib.contextmanager
def live(values: Mapping[str, torch.Tensor], constructed: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Set these values in torch layers once initialized, in other tensors when registered.

    A constructor may fold a norm into a product. If it found ones and zeros there, it would look like one that leaves
    the norm out. constructed: the values to replace. Tensors match by short name and contents, in order.
    """
    waiting = list(values)

    def give(holder: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in holder.items():
            short = name.rpartition(".")[2]
            named = [one for one in waiting if one.rpartition(".")[2] == short and not is_lazy(tensor)]
            found = next((one for one in named if weights.near(tensor, constructed[one])), "")
            if found:
                waiting.remove(found)
                with torch.no_grad():
                    tensor.copy_(values[found])

    kinds = [kind for kind in vars(torch.nn).values() if isinstance(kind, type) and issubclass(kind, torch.nn.Module)]
    bases = {base for kind in kinds for base in kind.__mro__}
    own = [(base, name, vars(base)[name]) for base in bases for name in _INITIALIZERS if name in vars(base)]

    def registered(module: Any, name: str, tensor: Any) -> None:
        if isinstance(tensor, torch.Tensor) and not _initializes(module):
            give({name: tensor})

    hooks = [
        registry.register_module_parameter_registration_hook(registered),
        registry.register_module_buffer_registration_hook(registered),
    ]
    try:
        for base, name, initialize in own:
            setattr(base, name, _then(initialize, give))
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for base, name, initialize in own:
            setattr(base, name, initialize)


_INITIALIZERS = ("reset_parameters", "_reset_parameters")
"""Methods that torch's layer constructors call last."""


def _then(initialize: Callable[..., None], give: Callable[[Mapping[str, torch.Tensor]], None]) -> Callable[..., None]:
    def initialized(self: torch.nn.Module) -> None:
        initialize(self)
        if _initializes(self):
            give(self.state_dict())

    return initialized


def _initializes(module: Any) -> bool:
    """Whether it is a torch layer that fills its tensors after registering them."""
    ours = type(module).__module__.startswith("torch.nn.")
    return ours and any(hasattr(module, name) for name in _INITIALIZERS)


def construct(module: ModuleType, spec: Mapping[str, Any], seed: int, device: torch.device, dtype: torch.dtype) -> Any:
    """A candidate's model from `init`, with `live` values if given; then load `weights`, if any."""
    with live(spec["live"], spec["constructed"]) if spec["live"] else contextlib.nullcontext():
        model = instance(module, "ModelNew", spec["init"], seed, device, dtype, spec["mode"])
    if spec["weights"] is not None and isinstance(model, torch.nn.Module):
        take_weights(model, spec["weights"])
    return model


TYPES = {"": None, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
"""Types to cast inputs and weights to, by name."""


def cast(item: Any, dtype: torch.dtype) -> Any:
    """Floating tensors in any nesting as `dtype`, layout kept; others unchanged."""

    def converted(base: torch.Tensor) -> torch.Tensor:
        return base.to(dtype) if base.is_floating_point() else base

    return inputs.mapped(item, lambda tensor: inputs.changed(tensor, converted))


def cast_inputs(module: ModuleType, precision: str) -> None:
    """Cast the tensors of a reference's getters to this precision; "" leaves them unchanged."""
    dtype = TYPES[precision]
    for name in ("get_inputs", "get_init_inputs", "get_more_inputs") if dtype is not None else ():
        if getter := getattr(module, name, None):
            setattr(module, name, lambda getter=getter: cast(getter(), dtype))
