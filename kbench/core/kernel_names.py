"""Kernels by their names: a solution's own, libraries', a compiler's; their time, and their share of a call."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from kbench.core.model import Status
from kbench.core.trace import DeviceActivity

NAMED_AT_MOST = 6
LIBRARY_SHARE = 0.99
"""Chosen (issue 19): with this share of the time in libraries, the solution is a call of them."""
FALLBACK, LIBRARY_TIME = "fallback", "library_time"
ShareSource = Literal["unknown", "builtin", "judge", "worker"]
"""Where the share of a solution's own kernels comes from: `builtin` ones have none, `judge` has profiled a call already
(`--require-custom`), one more `worker` profiles a call, and its times do not count."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnShare:
    """What one more worker told about a call."""

    share: float | None
    """From 0 to 1; None if not known."""
    reason: str = ""
    status: Status | None = None


def share_source(*, names_kernels: bool, is_asked: bool, is_builtin: bool, processes: int) -> ShareSource:
    """Decide where the share of a timed solution comes from; a run of one process (`--quick`) gets no other one."""
    if not names_kernels:
        return "unknown"
    if is_asked:
        return "judge"
    if is_builtin:
        return "builtin"
    return "worker" if processes > 1 else "unknown"


def share_of(timed: Iterable[tuple[KernelOrigin, float]], *origins: KernelOrigin) -> float | None:
    """Return the share of (origin, time) pairs that has these origins, from 0 to 1; None for no time at all."""
    every = list(timed)
    whole = sum(time for _, time in every)
    return sum(time for origin, time in every if origin in origins) / whole if whole else None


def fell_back(share: float | None, *, declares_kernels: bool) -> bool:
    """Return whether a solution has kernels in its sources, and a call launched none of them."""
    return declares_kernels and share == 0


def flag_of(share: float | None, *, declares_kernels: bool) -> str:
    """Return the flag of a solution with this share of own kernels: `fallback`, `library_time` or none."""
    if fell_back(share, declares_kernels=declares_kernels):
        return FALLBACK
    return LIBRARY_TIME if share is not None and share <= 1 - LIBRARY_SHARE else ""
