"""Whose kernel it is, by its name: the solution's own, a library's, or a compiler's."""

import re
from enum import StrEnum


class KernelOrigin(StrEnum):
    """Where a device activity comes from, by its name."""

    OWN = "own"
    LIBRARY = "library"
    COMPILED = "compiled"
    """By torch.compile, from operators."""
    COPY = "copy"
    PYTHON = "python"
    """The interpreter, between operators."""


LIBRARY = re.compile(
    r"\bat::(native|cuda)\b|\bat_cuda_detail::|\bc10::|\bcudnn|\bcublas|\bcusparse|\bcusolver|\bcub::|\bthrust::"
    r"|\bcutlass3?x?_\w*(sm)?\d+_|\bcutlass_\d|^(void )?cutlass::Kernel2?<cutlass_"
    r"|^nvjet_|^sm\d+_xmma|_(sgemm|hgemm|dgemm|gcgemm|scudnn|s1688|s16816)\w*_|^(volta|ampere|turing|maxwell|hopper)_"
    r"|^(void )?(gemmSN|gemvNSP|gemv2|gemvx|splitKreduce_kernel|implicit_convolve|winograd|fft2d|flip_filter"
    r"|vector_fft|dot_kernel|reduce_1Block_kernel|pytorch_flash|flash_(fwd|bwd)|fmha_|nchwToNhwc|nhwcToNchw"
    r"|cunn_|vectorized_layer_norm_kernel)"
    r"|\bnchwToNhwcKernel|\bnhwcToNchwKernel|^ncclDevKernel|^ncclKernel"
)
COMPILED = re.compile(r"^triton_(poi|per|red|tem|for|mm|bmm|helpers|unk)_")
COPY = re.compile(r"^(Memcpy|Memset)\b")


def origin(name: str) -> KernelOrigin:
    """Classify a device activity by its name; what no library or compiler is known to launch is the solution's own."""
    if COPY.search(name):
        return KernelOrigin.COPY
    if COMPILED.search(name):
        return KernelOrigin.COMPILED
    return KernelOrigin.LIBRARY if LIBRARY.search(name) else KernelOrigin.OWN


LIBRARY_OPERATORS = (
    "aten::",
    "prim::",
    "prims::",
    "c10d::",
    "mkldnn::",
    "onednn::",
    "mkl::",
    "quantized::",
    "inductor::",
)
COMPILED_OPERATORS = re.compile(
    r"^(Torch-Compiled Region|TorchDynamo|## Call CompiledFxGraph|CompiledFunction|Pregraph|AOTDispatcher|graph_\d+_)"
)


def operator_origin(name: str) -> KernelOrigin:
    """Classify an operator on the host by its name, as torch's profiler lists it; other namespaces are the author's."""
    if COMPILED_OPERATORS.search(name):
        return KernelOrigin.COMPILED
    return KernelOrigin.LIBRARY if name.startswith(LIBRARY_OPERATORS) else KernelOrigin.OWN
