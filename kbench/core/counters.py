"""Hardware counters of kernels, as `ncu --csv --page raw --print-units base` prints them: a line for each kernel.

Names: Metrics Reference of the Nsight Compute Documentation. The text is untrusted: what cannot be read is absent.
"""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_KERNELS = 64
REFUSED = "ERR_NVGPUCTRPERM"
HEAD = ("ID", "Kernel Name")
SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis", "Occupancy", "WarpStateStats")
"""Sections that hold most of the metrics below, whatever they are called on a device."""
DURATION = "gpu__time_duration.sum"
MEMORY = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY_OF_SECTION = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
L2_HIT = "lts__t_sector_hit_rate.pct"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
LOAD_USE = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"
STORE_USE = "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
EXTRA = (DURATION, MEMORY, L2_HIT, LOAD_USE, STORE_USE, CONFLICTS, WAVEFRONTS)
"""Metrics that are asked for by name."""
TENSOR = re.compile(r"^sm__(inst_executed_)?pipe_tensor\w*\.avg\.pct_of_peak_sustained_active$")
STALL = re.compile(r"^smsp__average_warps_issue_stalled_(?P<why>\w+)_per_issue_active\.ratio$")
LIMITS = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_warps": "block size",
    "launch__occupancy_limit_blocks": "blocks",
}
NO_STALL = frozenset({"selected", "not_selected"})
"""States of a warp that issues, or could."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Eight numbers of one kernel, in percent unless said otherwise; None where the device or `ncu` has none."""

    name: str
    duration_ns: float | None = None
    memory_percent: float | None = None
    """Share of the DRAM's peak throughput."""
    sm_percent: float | None = None
    """Share of the SMs' peak throughput, by their busiest pipe."""
    tensor_percent: float | None = None
    """Share of the tensor cores' peak."""
    l2_hit_percent: float | None = None
    occupancy_percent: float | None = None
    """Warps that were active, of those that an SM can hold."""
    occupancy_limiter: str = ""
    stall_percent: float | None = None
    """Share of a warp's cycles per instruction that its commonest stall takes."""
    stall: str = ""
    """Name of the commonest stall, such as `long_scoreboard`."""
    sector_use_percent: float | None = None
    """Bytes used of each sector that global loads or stores move, whichever uses less: 100 is coalesced."""
    bank_conflict_percent: float | None = None
    """Share of the wavefronts to shared memory that bank conflicts cause."""


def parse(text: str) -> tuple[Counters, ...]:
    """Read the raw page; empty where it has no table. At most MOST_KERNELS lines are read."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    start = next((n for n, line in enumerate(lines) if all(f'"{name}"' in line for name in HEAD)), None)
    if start is None:
        return ()
    table = list(csv.reader(lines[start : start + MOST_KERNELS + 2], strict=False))
    head, rows = table[0], table[1:]
    kernels = (dict(zip(head, row, strict=False)) for row in rows)
    return tuple(_read(kernel) for kernel in kernels if kernel.get("ID", "").isdigit())  # the second line is of units


def refusal(text: str) -> str | None:
    """Return the first error that `ncu` reported, or None."""
    if REFUSED in text:
        return REFUSED
    found = re.search(r"==ERROR== (.+)", text)
    return None if found is None else found[1].strip()[:300]


def number(text: str | None) -> float | None:
    """Read a number as `ncu` writes it (`1,234.5`); None for `n/a`, NaN, infinities and negative ones."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def heaviest(kernels: Sequence[Counters], name: str) -> Counters | None:
    """Return the counters of the longest launch of a kernel, or None. Names may lack return types and arguments."""
    same = [each for each in kernels if base_name(each.name) == base_name(name)]
    return max(same, key=lambda each: each.duration_ns or 0.0, default=None)


def base_name(name: str) -> str:
    """Return a kernel's name without return type, namespaces and arguments, as `ncu` writes it."""
    bare = re.sub(r"^void ", "", name).replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    return re.split(r"[<(]", bare, maxsplit=1)[0].strip().rpartition("::")[2]


def _read(kernel: Mapping[str, str]) -> Counters:
    values = {name: value for name, text in kernel.items() if name and (value := number(text)) is not None}
    stalls = {
        m["why"]: value for name, value in values.items() if (m := STALL.match(name)) and m["why"] not in NO_STALL
    }
    every = sum(value for name, value in values.items() if STALL.match(name))
    stall = max(stalls, key=lambda why: stalls[why], default="")
    limits = {words: values[name] for name, words in LIMITS.items() if name in values}
    uses = [values[name] for name in (LOAD_USE, STORE_USE) if name in values]
    conflicts, wavefronts = values.get(CONFLICTS), values.get(WAVEFRONTS, 0.0)
    repeats = min(1.0, conflicts / wavefronts) if conflicts is not None and wavefronts else None
    return Counters(
        name=kernel.get("Kernel Name", "")[:300],
        duration_ns=values.get(DURATION),
        memory_percent=values.get(MEMORY, values.get(MEMORY_OF_SECTION)),
        sm_percent=values.get(SM),
        tensor_percent=max((value for name, value in values.items() if TENSOR.match(name)), default=None),
        l2_hit_percent=values.get(L2_HIT),
        occupancy_percent=values.get(OCCUPANCY),
        occupancy_limiter=min(limits, key=lambda words: limits[words], default=""),
        stall_percent=100 * stalls[stall] / every if stall and every else None,
        stall=stall if every else "",
        # A kernel without global loads has a use of 0 percent, which says nothing.
        sector_use_percent=min((use for use in uses if use > 0), default=None),
        bank_conflict_percent=None if repeats is None else 100 * repeats,
    )
