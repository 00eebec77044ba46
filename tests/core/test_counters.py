"""The raw page of `ncu`, written here by its documented form: one line a kernel, one column a metric."""

import math

import pytest

from kbench.core import counters
from kbench.core.counters import Counters, base_name, heaviest, number, parse, refusal

STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
HEAD = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size")


def page(*kernels: dict[str, str], before: str = "==PROF== Connected to process 7\n") -> str:
    names = [*HEAD, "Device", "CC", *dict.fromkeys(name for kernel in kernels for name in kernel if name not in HEAD)]
    rows = [names, [""] * len(names)]
    for number_, kernel in enumerate(kernels):
        rows.append([{"ID": str(number_), **kernel}.get(name, "") for name in names])
    return before + "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


FULL = {
    "Kernel Name": "transposed(const float *, float *, long)",
    counters.DURATION: "1,234,567",
    counters.MEMORY: "41.5",
    counters.SM: "33.1",
    "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active": "0",
    "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active": "12.5",
    counters.L2_HIT: "50.25",
    counters.OCCUPANCY: "92.0",
    "launch__occupancy_limit_registers": "10",
    "launch__occupancy_limit_shared_mem": "8",
    "launch__occupancy_limit_warps": "8",
    "launch__occupancy_limit_blocks": "32",
    STALLED.format("long_scoreboard"): "12",
    STALLED.format("mio_throttle"): "4",
    STALLED.format("selected"): "1",
    STALLED.format("not_selected"): "3",
    counters.LOAD_USE: "100",
    counters.STORE_USE: "12.5",
    counters.CONFLICTS: "31",
    counters.WAVEFRONTS: "124",
}


def test_every_number_is_read():
    assert parse(page(FULL)) == (
        Counters(
            name="transposed(const float *, float *, long)",
            duration_ns=1_234_567,
            memory_percent=41.5,
            sm_percent=33.1,
            tensor_percent=12.5,
            l2_hit_percent=50.25,
            occupancy_percent=92.0,
            occupancy_limiter="shared memory",
            stall_percent=60.0,
            stall="long_scoreboard",
            sector_use_percent=12.5,
            bank_conflict_percent=25.0,
        ),
    )


@pytest.mark.parametrize("absent", ["", "n/a", "nan", "inf", "-1", "no"])
def test_what_is_no_number_is_absent_and_never_a_nan(absent):
    nothing = {name: value if name == "Kernel Name" else absent for name, value in FULL.items()}
    assert parse(page(nothing)) == (Counters(name=FULL["Kernel Name"]),)


def test_names_and_figures_of_strangers_break_nothing():
    assert parse("") == ()
    assert parse('"ID","Kernel Name"\n') == ()
    assert parse('"ID","Kernel Name"\n"0"\n"1","k","more"\n"x","y"\n')[-1] == Counters(name="k")
    longest = parse(page(*[{"Kernel Name": "n" * 5000}] * 500))
    assert len(longest) == counters.MOST_KERNELS
    assert len(longest[0].name) == 300


def test_a_kernel_without_shared_memory_or_loads_has_neither():
    (found,) = parse(page({**FULL, counters.CONFLICTS: "0", counters.WAVEFRONTS: "0", counters.LOAD_USE: "0"}))
    assert found.bank_conflict_percent is None
    assert found.sector_use_percent == 12.5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("==PROF== Connected", None),
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
            counters.REFUSED,
        ),
        (
            "==ERROR== Cuda driver is not compatible with Nsight Compute.",
            "Cuda driver is not compatible with Nsight Compute.",
        ),
    ],
)
def test_refusals(text, reason):
    assert refusal(text) == reason


def test_numbers():
    assert [number(text) for text in ("1,234.5", "0", None, "x")] == [1234.5, 0.0, None, None]
    assert number(str(math.nan)) is None


def test_the_longest_launch_counts_and_names_need_not_agree_in_their_arguments():
    seen = [Counters(name="scale(float *)", duration_ns=time) for time in (1.0, 3.0, 2.0)]
    assert heaviest(seen, "void scale<4>(float*)").duration_ns == 3.0
    assert heaviest(seen, "scaled(float*)") is None


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("void (anonymous namespace)::rows<256, 4>(float const*)", "rows"),
        ("my::space::rows(my::space::Problem)", "rows"),
        ("_rows_kernel", "_rows_kernel"),
    ],
)
def test_bare_names(name, bare):
    assert base_name(name) == bare
