"""The judge's clock against known truth: kernels that spin for chosen nanoseconds, and copies beside CUPTI's times.

This process is the judge, and this file, run as a program, is the worker: it queues calls behind the real gate. A
launch has a cost of its own, which belongs to any kernel: a spin of 0 ns measures it, and what a spin of N ns takes
above that must be N. Run with `-s` for the table, with the worker's events and `triton.testing.do_bench` beside it.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from require import WITH_CUDA

from kbench.core.clocks import (
    Attested,
    BaselineDelays,
    Constant,
    Round,
    attest,
    claim_is_quoted,
    constant_of,
    per_call_ns,
)
from kbench.devices.cuda import CudaTimer, L2Cache
from kbench.devices.cuda_driver import Driver
from kbench.devices.profiler import profile
from kbench.judge.clock.gate_clock import TARGET_NS
from kbench.process.gate_page import Gate
from kbench.worker.queued_calls import CallQueue, queue_calls

pytestmark = WITH_CUDA
triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
globaltimer = pytest.importorskip("triton.language.extra.cuda").globaltimer

SPINS_NS = (2_000, 5_000, 10_000, 20_000, 50_000, 200_000, 1_000_000, 9_000_000, 50_000_000)
COPIES_BYTES = (1 << 20, 16 << 20, 256 << 20, 4 << 30)
HELD_FROM_NS = 5_000
"""From here on a bias is a share; below it is a time."""
BIAS_SHARE = 0.01
BIAS_NS = 100
LAUNCH_NS = 100_000
"""What triton may take to launch a kernel: 35 us were seen on an H100's slow processor."""
MOST_CALLS = 256
ROUNDS = 9
EMPTY_ROUNDS = 25
ROUND_NS = 8_000
"""What a round of any call takes beside one of none: its events and the first launch."""
PATIENCE_S = 60.0


@triton.jit
def spin_kernel(elapsed, duration_ns):
    """Spin until the device's own clock has moved on by `duration_ns`; store by how much it did."""
    start = globaltimer()
    now = start
    while now - start < duration_ns:
        now = globaltimer()
    tl.store(elapsed, now - start)


# --- the worker ----------------------------------------------------------------------------


class Spin:
    """The spinning kernel with its duration; each call's true duration by the device's clock is kept."""

    def __init__(self, duration_ns: int):
        self._duration_ns = duration_ns
        # In rows of 16 bytes: for other addresses triton would compile anew, and load that while the gate is closed.
        self._elapsed = torch.zeros(MOST_CALLS, 2, dtype=torch.int64, device="cuda")

    def __call__(self, slot: int = 0) -> torch.Tensor:
        spin_kernel[(1,)](self._elapsed[slot:], self._duration_ns, num_warps=1)
        return self._elapsed

    def truth_ns(self, calls: int) -> float:
        return float(self._elapsed[:calls, 0].double().mean()) if calls else 0.0


class LateSpin(Spin):
    """The same, after 300 us of work on the host."""

    def __call__(self, slot: int = 0) -> torch.Tensor:
        until = time.perf_counter() + 300e-6
        while time.perf_counter() < until:
            pass
        return super().__call__(slot)


class Copy:
    """A copy of so many bytes; how long one of many in a row takes is CUPTI's to say."""

    def __init__(self, nbytes: int):
        self._source = torch.ones(nbytes, dtype=torch.uint8, device="cuda")
        self._target = torch.empty_like(self._source)

    def __call__(self, slot: int = 0) -> torch.Tensor:
        return self._target.copy_(self._source)

    def truth_ns(self, calls: int) -> float:
        _, activities = profile(lambda: [self() for _ in range(min(calls, 20) + 1)], torch.cuda.synchronize)
        return statistics.median(duration_ns for _, _, duration_ns in activities[1:])


KINDS: dict[str, Callable[[int], Any]] = {"spin": Spin, "late": LateSpin, "copy": Copy}


def work(fd: int) -> None:
    """Queue what is asked for on stdin behind the gate whose page is `fd`; say on stdout when, and what it took."""
    queue, call, known = CallQueue(fd), None, None
    for line in sys.stdin:
        asked = json.loads(line)
        if known != (asked["kind"], asked["size"]):
            call = None  # gives its memory back first
            torch.cuda.empty_cache()
            call, known = KINDS[asked["kind"]](asked["size"]), (asked["kind"], asked["size"])
            call(0)  # compiled here, not while the clock runs
            torch.cuda.synchronize()
        queue.forget()
        with torch.no_grad(), queue.gated(asked["number"]), queue.timed(asked["calls"]):
            queue_calls(call, range(asked["calls"]), None, keep=False)
        say(queued=True)
        queue.read(asked["calls"])
        truth_ns = call.truth_ns(asked["calls"]) if asked["truth"] else 0.0
        say(event_ns=queue.event_ns, truth_ns=truth_ns)


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


# --- the judge -------------------------------------------------------------------------------


class Judge:
    """Opens the gate of a worker, and sees on its own clock when its rounds are done."""

    def __init__(self) -> None:
        self._gate = Gate()
        self._cache = L2Cache(Driver())
        root = Path(__file__).parents[2]
        self._worker = subprocess.Popen(
            [sys.executable, __file__, str(self._gate.fd)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._gate.fd],
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (root, root / "tests", *sys.path)))},
        )
        self.constant = Constant(ns=0.0, half_width_ns=0.0)
        for _ in range(5):  # clocks ramp up
            self.round("spin", 1_000_000, 10)
        self.constant = constant_of([self.round("spin", 0, 0)[0] for _ in range(EMPTY_ROUNDS)])
        self.launch_ns = self.measure("spin", 0, calls=MOST_CALLS)[0].ns

    def round(self, kind: str, size: int, calls: int, *, truth: bool = False) -> tuple[Round, dict[str, float]]:
        """Have one round queued, make the cache cold, let it go, and wait for its end."""
        number = self._gate.next_round()
        self._tell({"kind": kind, "size": size, "calls": calls, "number": number, "truth": truth})
        assert self._told() == {"queued": True}
        self._cache.prepare()
        self._cache.flush()
        torch.cuda.synchronize()
        total_ns = self._gate.open_and_wait(PATIENCE_S)
        return Round(calls=calls, total_ns=total_ns, late_ns=0), self._told()

    def measure(self, kind: str, size: int, *, calls: int) -> tuple[Attested, float, float]:
        """Return the time per call on the judge's clock, by the worker's events, and in truth."""
        told = [self.round(kind, size, calls, truth=number == ROUNDS - 1) for number in range(ROUNDS)]
        attested = attest([each for each, _ in told], self.constant, BaselineDelays(late_ns=0.0, visible_ns=0.0))
        return attested, statistics.median(said["event_ns"] for _, said in told), told[-1][1]["truth_ns"]

    def close(self) -> None:
        self._worker.kill()
        self._worker.wait()
        self._gate.close()

    def _tell(self, message: dict[str, Any]) -> None:
        self._worker.stdin.write(json.dumps(message) + "\n")
        self._worker.stdin.flush()

    def _told(self) -> dict[str, Any]:
        line = self._worker.stdout.readline()
        assert line, "the worker has ended"
        return json.loads(line)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    made = Judge()
    yield made
    made.close()


def calls_of(duration_ns: float) -> int:
    """As `DeviceClock` sizes a round."""
    return max(1, min(MOST_CALLS, math.ceil(TARGET_NS / duration_ns)))


def test_the_devices_clock_is_fine_enough_to_be_the_truth():
    spin = Spin(10_000)
    for slot in range(50):
        spin(slot)
    assert 0 <= spin.truth_ns(50) - 10_000 < BIAS_NS


def test_a_round_of_no_call_varies_little(judge: Judge):
    print(f"constant {judge.constant.ns / 1e3:.1f} ± {judge.constant.half_width_ns / 1e3:.2f} us")  # noqa: T201
    print(f"empty launch {judge.launch_ns:.0f} ns")  # noqa: T201
    assert 0 < judge.constant.ns < 1_000_000
    assert judge.constant.half_width_ns < 5_000
    assert 0 < judge.launch_ns < HELD_FROM_NS


@pytest.mark.parametrize("duration_ns", SPINS_NS)
def test_a_spin_of_known_length(judge: Judge, duration_ns: int):
    attested, event_ns, truth_ns = judge.measure("spin", duration_ns, calls=calls_of(duration_ns))
    bias_ns = attested.ns - judge.launch_ns - truth_ns
    bench_ns = 1e6 * triton.testing.do_bench(Spin(duration_ns), warmup=25, rep=200, return_mode="median")
    print(  # noqa: T201 - the table that `-s` shows
        f"spin {truth_ns / 1e3:10.2f} us: judge {attested.ns / 1e3:10.2f} ± {attested.half_width_ns / 1e3:6.2f}, "
        f"events {event_ns / 1e3:10.2f}, bias {bias_ns / 1e3:+7.3f} us ({100 * bias_ns / truth_ns:+6.3f} %), "
        f"do_bench {bench_ns / 1e3:10.2f}"
    )
    assert abs(bias_ns) <= (BIAS_SHARE * truth_ns if truth_ns >= HELD_FROM_NS else BIAS_NS)
    assert claim_is_quoted(event_ns, attested), "honest events are within the judge's bounds"


def test_the_hosts_work_before_a_launch_stays_out(judge: Judge):
    """All of it is done before the gate opens."""
    attested, _, truth_ns = judge.measure("late", 50_000, calls=20)
    assert attested.ns - judge.launch_ns == pytest.approx(truth_ns, rel=BIAS_SHARE)


@pytest.mark.parametrize("calls", [1, 4, 32, 256])
def test_the_time_of_a_call_does_not_hang_on_their_number(judge: Judge, calls: int):
    attested, _, truth_ns = judge.measure("spin", 100_000, calls=calls)
    assert attested.ns - judge.launch_ns == pytest.approx(truth_ns, rel=BIAS_SHARE, abs=ROUND_NS / calls)


@pytest.mark.parametrize("nbytes", COPIES_BYTES)
def test_a_copy_takes_what_cupti_says(judge: Judge, nbytes: int):
    if torch.cuda.mem_get_info()[0] < 3 * nbytes:
        pytest.skip("too little memory")
    calls = calls_of(max(1_000, 2 * nbytes / 4e3))  # at 4 TB/s
    attested, event_ns, truth_ns = judge.measure("copy", nbytes, calls=calls)
    assert truth_ns > 0
    print(  # noqa: T201 - the table that `-s` shows
        f"copy {nbytes >> 20:5d} MiB: judge {attested.ns / 1e3:10.2f} ± {attested.half_width_ns / 1e3:6.2f} us, "
        f"events {event_ns / 1e3:10.2f} us, CUPTI {truth_ns / 1e3:10.2f} us, {2 * nbytes / attested.ns:7.0f} GB/s"
    )
    # The judge sees the launch too, CUPTI the copy alone; between two copies the memory itself varies by a percent.
    assert truth_ns * 0.98 <= attested.ns <= truth_ns * 1.02 + judge.launch_ns + 1_000


@pytest.mark.parametrize("duration_ns", [20_000, 1_000_000])
def test_a_single_call_by_events_and_by_a_graph_read_the_same(duration_ns: int):
    """As calls outside of rounds are timed, for what needs no precision."""
    times = []
    for timer in (CudaTimer(), CudaTimer(graph=True)):
        spin = Spin(duration_ns)
        spin()
        torch.cuda.synchronize()
        times.append(statistics.median(timer.measure(spin, 0).t_event_ns for _ in range(30)))
    by_event, by_graph = times
    # Behind no gate: the event before the call is there while the host still launches it.
    assert by_graph == pytest.approx(by_event, rel=BIAS_SHARE, abs=LAUNCH_NS)
    assert by_event == pytest.approx(duration_ns, rel=BIAS_SHARE, abs=LAUNCH_NS)


def test_one_round_says_as_much_as_many(judge: Judge):
    one, said = judge.round("spin", 20_000, 50, truth=True)
    assert per_call_ns(one, judge.constant) - judge.launch_ns == pytest.approx(said["truth_ns"], rel=0.02)


if __name__ == "__main__":
    work(int(sys.argv[1]))
