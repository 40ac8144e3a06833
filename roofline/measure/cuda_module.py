"""Compile CUDA source with NVRTC and launch it through the driver on torch's stream."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import sys
from collections.abc import Iterator
from typing import Any

from roofline.errors import RooflineError

NVRTC_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


def compile_cubin(source: str, cc: str) -> bytes:
    """Machine code for a compute capability ("9.0"); raises RooflineError."""
    library, arch = _nvrtc(), "sm_" + cc.replace(".", "")
    if library is None:
        raise RooflineError("no NVRTC library", fix="install the CUDA toolkit or a CUDA build of torch")
    program = ctypes.c_void_p()
    text = ctypes.c_char_p(source.encode())
    made = library.nvrtcCreateProgram(ctypes.byref(program), text, b"probes.cu", 0, None, None)
    _ok(made, "nvrtcCreateProgram")
    try:
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture={arch}".encode())
        if library.nvrtcCompileProgram(program, 1, options) != 0:
            log = _fetch(library, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
            raise RooflineError(f"NVRTC for {arch}: {log.decode(errors='replace').strip()[:400]}")
        return _fetch(library, program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _nvrtc() -> Any:
    for name in (*NVRTC_NAMES, *_bundled()):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    return None


def _bundled() -> Iterator[str]:
    """NVRTC libraries of torch's wheels, newest name first, without its builtins."""
    for folder in sys.path:
        for pattern in ("nvidia/*/lib/libnvrtc.so.*", "torch/lib/libnvrtc*.so*"):
            found = glob.glob(os.path.join(folder, pattern))
            yield from sorted((f for f in found if "builtins" not in f and ".alt." not in f), reverse=True)


def _fetch(library: Any, program: ctypes.c_void_p, size_call: str, data_call: str) -> bytes:
    size = ctypes.c_size_t()
    _ok(getattr(library, size_call)(program, ctypes.byref(size)), size_call)
    data = ctypes.create_string_buffer(size.value)
    _ok(getattr(library, data_call)(program, data), data_call)
    return data.raw


def _ok(status: int, call: str) -> None:
    if status != 0:
        raise RooflineError(f"{call} returned {status}", fix="update the driver to the CUDA toolkit's version")


class Module:
    """Kernels loaded into the current CUDA context for the life of the process."""

    def __init__(self, cubin: bytes) -> None:
        """Needs torch's context to be current: use the device first."""
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._module = ctypes.c_void_p()
        self._cubin = cubin
        _ok(self._driver.cuModuleLoadData(ctypes.byref(self._module), cubin), "cuModuleLoadData")

    def launch(self, name: str, blocks: int, threads: int, stream: int, *arguments: Any) -> None:
        """Start a kernel; arguments are ctypes values."""
        function = ctypes.c_void_p()
        _ok(self._driver.cuModuleGetFunction(ctypes.byref(function), self._module, name.encode()), name)
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        status = self._driver.cuLaunchKernel(
            function, blocks, 1, 1, threads, 1, 1, 0, ctypes.c_void_p(stream), pointers, None
        )
        _ok(status, f"launch of {name}")
