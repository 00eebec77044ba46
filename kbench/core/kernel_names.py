"""Kernels by their names: of the solution itself, of libraries, of a compiler; and their time beside the events'."""

import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from kbench.core.trace import DeviceActivity

NAMED_AT_MOST = 6
CLOSE = 0.05


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
    r"|^(void )?(gemmSN|gemvNSP|gemv2|gemvx|splitKreduce_kernel|implicit_convolve|explicit_convolve"
    r"|convolve_common_engine|winograd|fft2d|flip_filter|vector_fft|dot_kernel|reduce_1Block_kernel|pytorch_flash|flash_(fwd|bwd)|fmha_"
    r"|nchwToNhwc|nhwcToNchw|cunn_|vectorized_layer_norm_kernel)"
    r"|\bnchwToNhwcKernel|\bnhwcToNchwKernel|^ncclDevKernel|^ncclKernel"
)
COMPILED = re.compile(r"^triton_(poi|per|red|tem|for|mm|bmm|helpers|unk)_")
COPY = re.compile(r"^(Memcpy|Memset)\b")
LIBRARY_OPERATORS = (
    *("aten::", "prim::", "prims::", "c10d::", "quantized::", "inductor::"),
    *("mkldnn::", "onednn::", "mkl::"),
)
COMPILED_OPERATORS = re.compile(
    r"^(Torch-Compiled Region|TorchDynamo|## Call CompiledFxGraph|CompiledFunction|Pregraph|AOTDispatcher|graph_\d+_)"
)


def origin(name: str) -> KernelOrigin:
    """Classify a device activity by its name; what no library or compiler is known to launch is the solution's own."""
    if COPY.search(name):
        return KernelOrigin.COPY
    if COMPILED.search(name):
        return KernelOrigin.COMPILED
    return KernelOrigin.LIBRARY if LIBRARY.search(name) else KernelOrigin.OWN


def operator_origin(name: str) -> KernelOrigin:
    """Classify an operator on the host by its name, as torch's profiler lists it; other namespaces are the author's."""
    if COMPILED_OPERATORS.search(name):
        return KernelOrigin.COMPILED
    return KernelOrigin.LIBRARY if name.startswith(LIBRARY_OPERATORS) else KernelOrigin.OWN


def busy_ns(seen: Sequence[DeviceActivity]) -> int:
    """Return how long the device was busy: overlapping activities count once."""
    total = end = 0
    for each in sorted(seen, key=lambda activity: activity.start_ns):
        stop = each.start_ns + each.duration_ns
        total += max(0, stop - max(end, each.start_ns))
        end = max(end, stop)
    return total


def describe_kernels(seen: Sequence[DeviceActivity]) -> str:
    """List what ran: how many activities of each origin, and the longest by name."""
    counts, spent = Counter[str](), Counter[str]()
    for each in seen:
        counts[origin(each.name)] += 1
        spent[origin(each.name)] += each.duration_ns
    names = list(dict.fromkeys(each.name for each in sorted(seen, key=lambda each: -each.duration_ns)))
    named = ", ".join(f"{name[:80]} ({origin(name)})" for name in names[:NAMED_AT_MOST])
    more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
    shares = {kind: 100 * ns / max(1, spent.total()) for kind, ns in spent.items()}
    totals = ", ".join(f"{count} {kind} ({shares[kind]:.0f} % of the time)" for kind, count in counts.most_common())
    return f"one call ran {totals}: {named}{more}"


def crosscheck(seen: Sequence[DeviceActivity], event_ns: float) -> str:
    """Set the kernels' own time beside what events measured, and say where a difference can come from."""
    busy = busy_ns(seen)
    span = max(each.start_ns + each.duration_ns for each in seen)
    message = (
        f"events {event_ns / 1e3:.1f} us, kernels {busy / 1e3:.1f} us, "
        f"difference {(event_ns - busy) / 1e3:+.1f} us ({100 * (event_ns - busy) / max(1.0, event_ns):+.1f} %)"
    )
    if span - busy > CLOSE * max(1, span):
        message += f"; the device was idle for {(span - busy) / 1e3:.1f} us between kernels of the profiled call"
    return message
