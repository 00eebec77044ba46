"""Native libraries: build a `.cu` or `.cpp` source and call its C functions with checked errors.

Sources live beside this file, include only the headers in `include/`, and export plain C functions that
return 0 or an error code. `torch.utils.cpp_extension` drives ninja (one build folder per library, rebuilt
when a source, header or flag changes); no torch header is compiled, so a build takes seconds.
"""

import ctypes
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.utils import cpp_extension

SOURCE_FOLDER = Path(__file__).resolve().parent
INCLUDE_FOLDER = SOURCE_FOLDER / "include"

# Argument types of exported functions, by the names that their C declarations use.
POINTER = ctypes.c_void_p
INT32 = ctypes.c_int32
INT64 = ctypes.c_int64
FLOAT32 = ctypes.c_float
FLOAT64 = ctypes.c_double

CUDA_FLAGS = ("-O3", "-std=c++17", "-lineinfo")
CPU_FLAGS = ("-O3", "-std=c++17", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math")
CPU_LINK_FLAGS = ("-fopenmp",)

# Exported by launch.cuh; a CPU library has no use for it.
ERROR_NAME_FUNCTION = "kbench_error_name"

Signatures = Mapping[str, Sequence[type]]


class UnsupportedDeviceError(RuntimeError):
    """The device lacks what a source needs; the message says what."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeLibrary:
    """A loaded library whose functions are called by name with checked error codes."""

    path: Path
    handle: ctypes.CDLL = field(repr=False)

    def call(self, function: str, *arguments: object) -> None:
        """Call an exported function; RuntimeError names function and error if it returns other than 0."""
        code = getattr(self.handle, function)(*arguments)
        if code != 0:
            raise RuntimeError(f"{function} failed: {self.error_name(code)} (code {code})")

    def error_name(self, code: int) -> str:
        """CUDA's name for an error code, or 'error' where the library is not a CUDA one."""
        if not hasattr(self.handle, ERROR_NAME_FUNCTION):
            return "error"
        name = getattr(self.handle, ERROR_NAME_FUNCTION)
        name.argtypes, name.restype = (ctypes.c_int,), ctypes.c_char_p
        return str(name(code), "ascii")


def bind(path: str | Path, signatures: Signatures) -> NativeLibrary:
    """Open a built library and declare its functions: name -> argument types (each returns int, 0 = ok)."""
    handle = ctypes.CDLL(str(path))
    for name, argument_types in signatures.items():
        function = getattr(handle, name)
        function.argtypes, function.restype = tuple(argument_types), ctypes.c_int
    return NativeLibrary(path=Path(path), handle=handle)


def load_cuda(
    source: str,
    signatures: Signatures,
    *,
    device: torch.device | int | None = None,
    min_capability: tuple[int, int] = (8, 0),
    arch_specific: bool = False,
) -> NativeLibrary:
    """Build `source` (a file name in this folder) for one device's own architecture and open it.

    `arch_specific` asks for the 'a' target (sm_90a), which `wgmma` and `setmaxnreg` need; such code runs on
    that very capability only. Raises UnsupportedDeviceError when there is no CUDA device, when its capability
    is below `min_capability` or, with `arch_specific`, other than it; RuntimeError when the build fails.
    """
    capability = device_capability(device)
    fits = capability == min_capability if arch_specific else capability >= min_capability
    if not fits:
        relation = "exactly" if arch_specific else "at least"
        raise UnsupportedDeviceError(
            f"{source} needs compute capability {relation} {_dotted(min_capability)}; "
            f"this device has {_dotted(capability)}"
        )
    target = f"{capability[0]}{capability[1]}{'a' if arch_specific else ''}"
    path = cpp_extension.load(
        name=f"kbench_{Path(source).stem}_sm{target}",
        sources=[str(SOURCE_FOLDER / source)],
        extra_cuda_cflags=[*CUDA_FLAGS, f"-gencode=arch=compute_{target},code=sm_{target}"],
        extra_include_paths=[str(INCLUDE_FOLDER)],
        is_python_module=False,
    )
    return bind(path, signatures)


def load_cpu(source: str, signatures: Signatures) -> NativeLibrary:
    """Build `source` (a file name in this folder) with OpenMP for this machine's instruction set; open it."""
    path = cpp_extension.load(
        name=f"kbench_{Path(source).stem}_cpu",
        sources=[str(SOURCE_FOLDER / source)],
        extra_cflags=list(CPU_FLAGS),
        extra_ldflags=list(CPU_LINK_FLAGS),
        extra_include_paths=[str(INCLUDE_FOLDER)],
        is_python_module=False,
    )
    return bind(path, signatures)


def load_cpu_inline(name: str, source_text: str, signatures: Signatures) -> NativeLibrary:
    """As load_cpu, for source text kept in Python. `name` names the build folder: one name, one text."""
    path = cpp_extension.load_inline(
        name=name,
        cpp_sources=[source_text],
        extra_cflags=list(CPU_FLAGS),
        extra_ldflags=list(CPU_LINK_FLAGS),
        # torch/extension.h alone costs 20 s of compile time, and C functions need none of it.
        no_implicit_headers=True,
        is_python_module=False,
    )
    return bind(path, signatures)


def device_capability(device: torch.device | int | None = None) -> tuple[int, int]:
    """Compute capability (major, minor) of a CUDA device, the current one by default."""
    if not torch.cuda.is_available():
        raise UnsupportedDeviceError("no CUDA device is available")
    major, minor = torch.cuda.get_device_capability(device)
    return major, minor


def has_cuda_compiler() -> bool:
    """Whether `nvcc` is on the PATH."""
    return shutil.which("nvcc") is not None


def current_stream(device: torch.device) -> int:
    """Handle of the stream that torch is using on `device`, as the pointer that launches take."""
    return int(torch.cuda.current_stream(device).cuda_stream)


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
