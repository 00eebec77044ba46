"""The GPU timer against known truth: a kernel that spins for chosen nanoseconds, and copies beside CUPTI's times.

A launch has a cost of its own, which belongs to any kernel and which events see: a spin of 0 ns measures it, and what a
spin of N ns reads above that must be N. Run with `-s` for the table, with `triton.testing.do_bench` and the method of
nvbench's cold measurements beside it.
"""

import statistics
import time

import pytest
import torch

from kbench.measure.profiler import profile
from kbench.measure.timing import CudaTimer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
globaltimer = pytest.importorskip("triton.language.extra.cuda").globaltimer

SPINS_NS = (2_000, 5_000, 10_000, 20_000, 50_000, 200_000, 1_000_000, 9_000_000, 50_000_000)
COPIES_BYTES = (1 << 20, 16 << 20, 256 << 20, 4 << 30)
LONG_NS = 20_000
"""From here on a bias is a share; below it is a time."""
BIAS_SHARE = 0.01
BIAS_NS = 300
BUDGET_NS = 600_000_000
BATCH_NS = 200_000
MOST_CALLS = 32
"""In a batch; the stream is kept busy for 2 ms at most while the host submits them."""


@triton.jit
def spin_kernel(elapsed, duration_ns):
    """Spin until the device's own clock has moved on by `duration_ns`; store by how much it did."""
    start = globaltimer()
    now = start
    while now - start < duration_ns:
        now = globaltimer()
    tl.store(elapsed, now - start)


class Spin:
    """The spinning kernel with its duration; the calls' true durations by the device's clock are kept."""

    def __init__(self, duration_ns: int):
        self._duration_ns = duration_ns
        self._elapsed = torch.zeros(1, dtype=torch.int64, device="cuda")

    def __call__(self, _slot: int = 0) -> torch.Tensor:
        spin_kernel[(1,)](self._elapsed, self._duration_ns, num_warps=1)
        return self._elapsed

    @property
    def elapsed_ns(self) -> int:
        return int(self._elapsed.item())


@pytest.fixture(scope="module")
def timer():
    timer = CudaTimer()
    for _ in range(20):  # clocks ramp up, kernels are compiled
        timer.measure(Spin(1_000_000), [0], flush=True)
    return timer


def median_ns(timer, call, duration_ns: int) -> float:
    """Time as `run` does: single calls behind a flush, batches without one below 20 us."""
    batch = min(MOST_CALLS, round(BATCH_NS / max(duration_ns, 1_000))) if duration_ns < LONG_NS else 1
    call(0)  # compiled here, not while the clock runs
    torch.cuda.synchronize()
    repeats = max(5, min(50, BUDGET_NS // max(duration_ns, 1_000_000)))
    times = [timer.measure(call, range(batch), flush=batch == 1).t_event_ns for _ in range(repeats)]
    return statistics.median(times)


def nvbench_ns(call) -> float:
    """Time as nvbench's cold measurements do: a memset of the L2's size, a blocking kernel, events; the mean.

    Samples are taken until their noise is below 0.5 %, at least 10 of them, and for half a second at most.
    """
    l2 = torch.empty(torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.uint8, device="cuda")
    times: list[float] = []
    began = time.monotonic()
    while time.monotonic() - began < 0.5:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        l2.zero_()
        torch.cuda._sleep(400_000)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(1e6 * start.elapsed_time(end))
        if len(times) >= 10 and statistics.stdev(times) < 0.005 * statistics.mean(times):
            break
    return statistics.mean(times)


def test_the_devices_clock_is_fine_enough_to_be_the_truth(timer):
    spin = Spin(10_000)
    overshoot = []
    for _ in range(50):
        spin()
        overshoot.append(spin.elapsed_ns - 10_000)
    assert statistics.median(overshoot) < BIAS_NS, overshoot


@pytest.mark.parametrize("duration_ns", SPINS_NS)
def test_a_spin_of_known_length(timer, duration_ns):
    spin, empty = Spin(duration_ns), Spin(0)
    reading = median_ns(timer, spin, duration_ns)
    truth = spin.elapsed_ns
    launch = median_ns(timer, empty, duration_ns)
    bench_ns = 1e6 * triton.testing.do_bench(spin, warmup=25, rep=200, return_mode="median")
    bias = reading - launch - truth
    print(  # noqa: T201 - the table that `-s` shows
        f"spin {truth / 1e3:10.2f} us: kbench {reading / 1e3:10.2f}, empty launch {launch / 1e3:5.2f}, "
        f"bias {bias / 1e3:+7.3f} us ({100 * bias / truth:+6.3f} %), do_bench {bench_ns / 1e3:10.2f}, "
        f"nvbench's method {nvbench_ns(spin) / 1e3:10.2f}"
    )
    allowed = BIAS_SHARE * truth if truth >= LONG_NS else BIAS_NS
    assert abs(bias) <= allowed


@pytest.mark.parametrize("duration_ns", [LONG_NS, 1_000_000])
def test_a_graph_reads_the_same(timer, duration_ns):
    by_event, by_graph = (median_ns(each, Spin(duration_ns), duration_ns) for each in (timer, CudaTimer(graph=True)))
    assert by_graph == pytest.approx(by_event, rel=BIAS_SHARE, abs=2_000)


@pytest.mark.parametrize("nbytes", COPIES_BYTES)
def test_a_copy_takes_what_cupti_says(timer, nbytes):
    if torch.cuda.mem_get_info()[0] < 3 * nbytes:
        pytest.skip("too little memory")
    source = torch.ones(nbytes, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)

    def copy(_slot: int = 0) -> None:
        target.copy_(source)

    reading = statistics.median(timer.measure(copy, [0], flush=True).t_event_ns for _ in range(30))
    by_cupti = [profile(copy, timer.flush)[1] for _ in range(5)]
    assert all(len(activities) == 1 for activities in by_cupti), by_cupti
    truth = statistics.median(activities[0][2] for activities in by_cupti)
    launch = median_ns(timer, Spin(0), LONG_NS)
    bench_ns = 1e6 * triton.testing.do_bench(copy, warmup=25, rep=100, return_mode="median")
    print(  # noqa: T201 - the table that `-s` shows
        f"copy {nbytes >> 20:5d} MiB: kbench {reading / 1e3:10.2f} us, CUPTI {truth / 1e3:10.2f} us, "
        f"do_bench {bench_ns / 1e3:10.2f} us, nvbench's method {nvbench_ns(copy) / 1e3:10.2f} us, "
        f"{2 * nbytes / reading:7.0f} GB/s"
    )
    # Events see the launch too, CUPTI the copy alone; between two copies the memory itself varies by a percent.
    assert truth * 0.98 <= reading <= truth * 1.02 + launch + 1_000


def test_an_empty_measurement_is_short(timer):
    assert 0 < timer.overhead_ns() < 10_000


def test_the_hosts_time_to_submit_stays_out(timer):
    """A call that spends 500 us on the host before its launch reads as its kernel alone."""
    spin = Spin(100_000)

    def slow_to_submit(_slot: int) -> None:
        until = time.perf_counter() + 500e-6
        while time.perf_counter() < until:
            pass
        spin()

    for _ in range(5):  # the timer learns how long submission takes
        timer.measure(slow_to_submit, [0], flush=True)
    readings = [timer.measure(slow_to_submit, [0], flush=True).t_event_ns for _ in range(20)]
    assert statistics.median(readings) < 110_000
    timer.measure(spin, [0], flush=True)
