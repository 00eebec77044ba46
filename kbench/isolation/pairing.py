"""Timing of one process: randomised ABBA pairs of reference and candidate, attested by the judge's own clock."""

import math
import secrets
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kbench.core.model import Sample, Timing
from kbench.core.stats import median_interval, pair_log_ratios, timing_flags
from kbench.isolation.attestation import ATTEST_COUNTS, Attestation
from kbench.isolation.candidate import Reply
from kbench.isolation.expected import Expected
from kbench.isolation.trial import Trial, secret_seed
from kbench.measure.device import DeviceMonitor
from kbench.measure.timing import Timer, poison_pool, start_on

SETTLE_PAIRS = 3
SETTLE_LIMIT_S = 3.0
SETTLED_WITHIN = {"events": 0.01, "host": 0.1}
"""Share by which two successive medians may differ; a shared processor never comes to rest as a GPU does."""
BATCH_BELOW_NS = 20_000
BATCH_TARGET_NS = 200_000
RESOLVED_FROM_NS = {"events": BATCH_BELOW_NS, "host": 200_000}
"""Shorter calls are told from one another no better than launches are; on a CPU, than threads that wake up are."""
HOST_CALLS = 5
HOST_TARGET_NS = 20_000_000
"""On a CPU, calls in a row and their median: what ran between two calls has the caches when the first one begins."""
HOST_REST_S = 2e-3
LAST_REQUESTS = 4
"""Fewer than so many more come before the one that ends in the kill, so that nobody can count up to it."""
ALONE_CALLS = 5
INTERFERENCE = 0.03
REPEAT_SHARE = 0.2
ENOUGH_PAIRS = 8
PAIRS_LIMIT_S = 3.0
"""A process that has taken so long stops at ENOUGH_PAIRS: another process tells more than more pairs would."""
NEGLIGIBLE = 3
"""A process's own interval so many times below the precision asked for makes up a sixth of the variance, and less than
a tenth of the width, of an interval over three processes that just reaches it: more pairs would hardly narrow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """How long to time: pairs per process, and whether the process is the last that may be disturbed."""

    pairs: int
    process: int
    mode: str
    precision: float


class Pairing:
    """Times one bound trial; every timed call has fresh inputs and its outputs are checked."""

    def __init__(self, trial: Trial, timer: Timer, monitor: DeviceMonitor, pacing: Pacing, l2_bytes: int | None):
        self._trial = trial
        self._timer = timer
        self._monitor = monitor
        self._pacing = pacing
        self._flush = pacing.mode == "cold" and l2_bytes is not None
        self._l2 = "warm" if not self._flush else "flushed"
        if timer.name == "host":
            self._l2 = "none"
        self._samples: list[Sample] = []
        self._batch = 1
        self._flags: set[str] = set()
        self._pairs_until = math.inf

    def run(self, on_pair: Callable[[int], None], on_timed: Callable[[float], None]) -> Timing:
        """Settle, time the pairs, attest, kill the worker on a last call and verify what it left.

        `on_timed` is told the median time in ns before the worker dies, for what must not come before timing.
        """
        alone_before = self._alone()
        self._settle()
        self._pairs_until = time.monotonic() + PAIRS_LIMIT_S
        block, target = 0, self._pacing.pairs
        limit = math.ceil(target * (1 + REPEAT_SHARE))
        while self._clean_pairs() < target and block < limit and not self._precise():
            order = (("reference", "candidate"), ("candidate", "reference"))
            first = secrets.randbelow(2)
            for arms in (order[first], order[1 - first]):
                self._pair(block, arms)
            block += 2
            on_pair(block)
        if self._clean_pairs() < min(target, ENOUGH_PAIRS):
            self._flags.add("unstable")
        attesting = Attestation(self._trial, self._timer, self._samples)
        attested, attestation = attesting.run()
        if attesting.congested:
            self._flags.add("congested")
        if self._trial.reference.inputs.repeat:
            # Whoever remembers the answer works for none of the times that were claimed.
            self._flags.add("inputs_repeat")
            attestation = "weak"
        if self._trial.proves_little:
            self._flags.add("trivial_passes")
            attestation = "weak"
        if attestation == "weak":
            self._flags.add("attestation_weak")
        on_timed(statistics.median(s.t_event_ns for s in self._samples if s.arm == "candidate"))
        self._kill_verify(attesting)
        self._check_interference(alone_before, self._alone())
        return Timing(
            samples=tuple(self._samples),
            timer=self._timer.name,
            l2=self._l2,
            attested_ns=attested,
            attestation=attestation,
            event_overhead_ns=self._timer.overhead_ns(),
            flags=tuple(sorted({*self._flags, *timing_flags(self._samples)})),
        )

    def _precise(self) -> bool:
        """Say whether the pairs so far suffice: they agree so well that more cannot matter, or the time is up."""
        if self._clean_pairs() < ENOUGH_PAIRS:
            return False
        if time.monotonic() > self._pairs_until:
            return True
        interval = median_interval(pair_log_ratios(self._samples))
        return interval is not None and interval.half_width < self._pacing.precision / NEGLIGIBLE

    def _clean_pairs(self) -> int:
        return sum(not s.marked for s in self._samples if s.arm == "candidate")

    def _settle(self) -> None:
        """Alternate both arms until neither moves any more; choose the batch size from what they take."""
        times: dict[str, list[int]] = {"reference": [], "candidate": []}
        deadline = time.monotonic() + SETTLE_LIMIT_S
        # Whoever asks for less precision than that has no use for more rest.
        within = max(SETTLED_WITHIN[self._timer.name], self._pacing.precision)
        while True:
            for _ in range(SETTLE_PAIRS):
                reply, reference_ns, _ = self._timed_pair(("reference", "candidate"))
                times["reference"].append(reference_ns)
                times["candidate"].append(reply.event_ns)
            self._trial.candidate.set_reference_time(statistics.median(times["reference"]) / 1e9)
            if all(settled(values, within) for values in times.values()):
                break
            if time.monotonic() > deadline:
                self._flags.add("not_settled")
                break
        fastest = min(statistics.median(values[-SETTLE_PAIRS:]) for values in times.values())
        self._batch = batch_size(self._timer.name, fastest, self._trial.arena.count)
        if fastest < RESOLVED_FROM_NS[self._timer.name]:
            self._flags.add("resolution_limited")

    def _pair(self, block: int, arms: tuple[str, str]) -> None:
        reading = self._monitor.read()
        reply, reference_ns, reference_submit_ns = self._timed_pair(arms)
        after = self._monitor.read()
        marked = self._monitor.disturbed(reading, after)
        for arm in arms:
            mine = arm == "candidate"
            self._samples.append(
                Sample(
                    process=self._pacing.process,
                    block=block // 2,
                    sequence=len(self._samples),
                    arm=arm,
                    t_event_ns=reply.event_ns if mine else reference_ns,
                    t_host_submit_ns=reply.submit_ns if mine else reference_submit_ns,
                    t_wall_ns=reply.wall_ns if mine else reference_ns,
                    calls=self._batch,
                    sm_clock_mhz=after.sm_clock_mhz,
                    power_mw=after.power_mw,
                    temperature_c=after.temperature_c,
                    throttle_reasons=after.throttle_reasons,
                    marked=marked,
                )
            )

    def _timed_pair(self, arms: tuple[str, str]) -> tuple[Reply, int, int]:
        """Time both arms on the same fresh inputs, in the given order; expected values always come first."""
        reference = self._trial.reference
        arguments = [reference.arguments(secret_seed()) for _ in range(self._batch)]
        consumed = [reference.consumable(a) for a in arguments]
        slots = self._slots()
        if arms[0] == "reference":
            timed, event_ns, submit_ns = self._time_reference(consumed, slots)
            expected = [replace(e, arguments=a) for e, a in zip(timed, arguments, strict=True)]
        else:
            expected = [reference.expect(a) for a in arguments]
        reply = self._trial.call(expected, flush=self._flush, slots=slots)
        for slot, wanted in zip(slots, expected, strict=True):
            self._trial.judge_values(slot, wanted)
        if arms[0] == "candidate":
            del expected[:], wanted
            _, event_ns, submit_ns = self._time_reference(consumed, slots)
        return reply, event_ns, submit_ns

    def _time_reference(self, arguments: list[list[Any]], slots: list[int]) -> tuple[list[Expected], int, int]:
        """Time the reference here, with the worker's tree stopped; on a CPU, step by step as a worker does it."""
        import torch

        from kbench.isolation.wire import flatten

        host = self._timer.name == "host"
        model = self._trial.reference.model
        everything = range(len(arguments))
        expected, times = [], []
        with self._trial.candidate.stopped(), torch.no_grad():
            if host:
                # The worker slept until it was asked: a process that wakes up is not the first to lose its turn.
                time.sleep(HOST_REST_S)
                start_on(slots[0])
            for together in [[n] for n in everything] if host else [everything]:
                if host:
                    poison_pool(self._trial.arena.outputs(slots[0]))
                measured = self._timer.measure(lambda n: model(*arguments[n]), together, flush=self._flush)
                times.append(measured)
                for n in together:
                    leaves = flatten(measured.outputs.pop(0))
                    # Kept as a copy on a CPU, so that the next result finds the memory of this one, as in a worker.
                    kept = [(path, leaf.clone() if host and hasattr(leaf, "clone") else leaf) for path, leaf in leaves]
                    expected.append(self._trial.reference.expected(arguments[n], arguments[n], kept))
                    del leaves
        event_ns = round(statistics.median(m.t_event_ns for m in times))
        return expected, event_ns, round(statistics.median(m.t_submit_ns for m in times))

    def _slots(self) -> list[int]:
        count = self._trial.arena.count
        start = secrets.randbelow(count)
        return [(start + n) % count for n in range(self._batch)]

    def _alone(self) -> float:
        """Return the reference's median time with the worker stopped or gone, nothing alternating with it."""
        arguments = self._trial.reference.arguments(secret_seed())
        times = []
        for _ in range(ALONE_CALLS):
            measured = self._timer.measure(lambda _: self._trial.reference.call(arguments), [0], flush=self._flush)
            times.append(measured.t_event_ns)
            del measured
        return statistics.median(times)

    def _check_interference(self, before: float, after: float) -> None:
        paired = statistics.median(s.t_event_ns for s in self._samples if s.arm == "reference")
        if self._batch == 1 and self._timer.name != "host" and paired > (1 + INTERFERENCE) * max(before, after):
            self._flags.add("interference")

    def _kill_verify(self, attesting: Attestation) -> None:
        """After a last request that looks like any other, kill the worker; verify what nobody can write any more.

        It comes at random after some more that the judge's clock looks on, and is one of these itself or a timed one.
        """
        reference, arena = self._trial.reference, self._trial.arena
        # Whoever folded the parameters once and for all, when they had not changed for a while, is found out here.
        self._trial.candidate.vary_weights(reference, secret_seed())
        counts = [k for k in ATTEST_COUNTS if k <= arena.count]
        for _ in range(secrets.randbelow(LAST_REQUESTS)):
            attesting.wall(secrets.choice(counts))
        attest = bool(secrets.randbelow(2))
        slots = list(range(secrets.choice(counts))) if attest else [arena.random_slot()]
        expected = [reference.expect(reference.arguments(secret_seed())) for _ in slots]
        self._trial.call(expected, flush=self._flush and not attest, attest=attest, slots=slots, kill=True)
        for slot, wanted in zip(slots, expected, strict=True):
            self._trial.judge_values(slot, wanted)


def batch_size(timer: str, fastest_ns: float, slots: int) -> int:
    """Return how many calls make one sample, each on a slot of its own; `fastest_ns` is the time of the faster arm."""
    if timer == "host":
        wanted = min(HOST_CALLS, int(HOST_TARGET_NS / max(1.0, fastest_ns)))
    else:
        wanted = round(BATCH_TARGET_NS / max(1.0, fastest_ns)) if fastest_ns < BATCH_BELOW_NS else 1
    return max(1, min(slots, wanted))


def settled(values: list[int], within: float) -> bool:
    """Say whether the last few times have the same median as the few before them."""
    if len(values) < 2 * SETTLE_PAIRS:
        return False
    last = statistics.median(values[-SETTLE_PAIRS:])
    before = statistics.median(values[-2 * SETTLE_PAIRS : -SETTLE_PAIRS])
    return abs(last - before) <= within * before + 500
