"""Timing of one process: randomised ABBA pairs of reference and candidate, attested by the judge's own clock."""

import math
import secrets
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from kbench.core.events import RunOptions
from kbench.core.model import Sample, Timing
from kbench.core.stats import between_processes, counted, median_interval, pair_log_ratios
from kbench.devices.monitor import DeviceMonitor
from kbench.judge.clock import FEW_READINGS
from kbench.judge.clock.gate_clock import DeviceClock
from kbench.judge.clock.host_clock import HostClock
from kbench.judge.exchange import Trial

ARMS = ("reference", "candidate")
SETTLED_PAIRS = 4
"""Chosen. Number of the last settling pairs that count: two blocks."""
SETTLE_LIMIT_S = 3.0
SETTLED_WITHIN = {"cuda": 0.01, "cpu": 0.1}
"""Largest difference of two successive medians, as a share; a shared processor is less quiet than a GPU."""
RESOLVED_FROM_NS = {"cuda": 20_000, "cpu": 200_000}
"""Time per call below which launches (on a CPU: threads that wake up) limit the resolution."""
STEADY_WITHIN = {"cuda": True, "cpu": False}
"""True where calls scatter less within a process than between processes."""
REPEAT_SHARE = 0.2
ENOUGH_PAIRS = 8
PAIRS_LIMIT_S = 2.0
"""Time after which a process stops at ENOUGH_PAIRS: another process adds more information than more pairs."""
ALONE_LIMIT_S = {"cuda": PAIRS_LIMIT_S, "cpu": 5.0}
"""This limit for a single process: on a CPU calls scatter more than processes, so more pairs help there."""
NEGLIGIBLE = 3
"""Factor by which a process's own interval has to be below the requested precision. It then makes up less than a tenth
of the width of an interval over three processes, so more pairs do not help."""

ArmClock = DeviceClock | HostClock


class Pairing:
    """Times one bound trial; every timed call has fresh inputs, and outputs of timed calls are checked."""

    def __init__(self, trial: Trial, clock: ArmClock, monitor: DeviceMonitor, options: RunOptions, process: int):
        self._trial = trial
        self._clock = clock
        self._monitor = monitor
        self._options = options
        self._process = process
        self._device = trial.reference.device
        self._alone = options.max_processes == 1
        """True if no other process follows: pairs need not agree better than processes do."""
        self._samples: list[Sample] = []
        self._flags: set[str] = set()
        self._order = ARMS if secrets.randbelow(2) else ARMS[::-1]
        """Order of the arms in every block, so that both rounds of each pair follow a round of the same arm."""

    def run(self, on_pair: Callable[[int], None], on_timed: Callable[[float], None]) -> Timing:
        """Settle, time the pairs, attest, kill the worker on a last call and verify its results.

        `on_timed` gets the median time in ns before the worker dies, for work that must not come before timing.

        Raises:
            RefusalError: a solution is wrong.
            NotQueuedError: calls cannot be queued (GPU); plain loops time them in the next try.
            UnreadableError: results cannot be read from the worker's memory (CPU); they are copied in the next try.
        """
        self._clock.prepare()
        self._settle()
        self._time_pairs(on_pair)
        claimed_ns = self._median_ns("candidate")
        self._clock.prove(claimed_ns, self._pairs)
        on_timed(claimed_ns)
        self._clock.kill_verify()
        timing = self._clock.conclude(claimed_ns)
        # A speed-up over a slowed reference proves nothing, nor does the time of an answer that may be remembered.
        doubts = {
            "interference": self._clock.slower_beside(),
            "inputs_repeat": self._trial.reference.inputs.repeat,
            "trivial_passes": self._trial.proves_little,
        }
        flags = {*self._flags, *timing.flags, *(flag for flag, is_so in doubts.items() if is_so)}
        attestation = "weak" if any(doubts.values()) else timing.attestation
        if attestation == "weak":
            flags.add("attestation_weak")
        return replace(timing, samples=self._quoted(timing), attestation=attestation, flags=tuple(sorted(flags)))

    def _quoted(self, timing: Timing) -> tuple[Sample, ...]:
        """Return the samples with the times that the row quotes.

        The candidate's are those of the judge's clock, moved to the median that is quoted: its claims', if they are
        believed, else the attested one. If claims scatter at will, their ratios to the reference have any median.
        """
        attested_ns, clock = timing.attested_ns, timing.timer
        if attested_ns is None or (clock == "host" and timing.attestation == "weak"):
            return tuple(self._samples)
        seen_ns = statistics.median(s.t_wall_ns for s in self._samples if s.arm == "candidate")
        shift_ns = round((attested_ns if clock == "judge" else self._median_ns("candidate")) - seen_ns)
        quoted = {"candidate": lambda s: s.t_wall_ns + shift_ns, "reference": lambda s: s.t_event_ns}
        if clock == "judge":
            quoted["reference"] = lambda s: s.t_wall_ns - round(self._clock.overhead_ns)
        return tuple(replace(s, t_event_ns=max(1, quoted[s.arm](s))) for s in self._samples)

    def _time_pairs(self, on_pair: Callable[[int], None]) -> None:
        """Time pairs until as many count as were asked for, or more do not help."""
        pairs_until = time.monotonic() + (ALONE_LIMIT_S[self._device] if self._alone else PAIRS_LIMIT_S)
        target = self._options.pairs
        limit = math.ceil(target * (1 + REPEAT_SHARE))
        while self._counted_pairs() < target and self._pairs < limit and not self._suffice(pairs_until):
            self._block()
            on_pair(self._pairs)
        if self._counted_pairs() < min(target, ENOUGH_PAIRS):
            self._flags.add("unstable")

    def _suffice(self, until: float) -> bool:
        """Return whether the pairs so far suffice: they agree so well that more do not help, or the time is up."""
        if self._counted_pairs() < ENOUGH_PAIRS:
            return False
        if time.monotonic() > until:
            return True
        interval = median_interval(pair_log_ratios(self._samples))
        decides = self._alone or "resolution_limited" in self._flags
        between = self._between(min(self._median_ns(arm) for arm in ARMS)) if decides else 0.0
        return interval is not None and interval.half_width < max(self._options.precision, between) / NEGLIGIBLE

    def _between(self, fastest_ns: float) -> float:
        """Return how much processes differ, if calls of one process scatter less than that; else 0."""
        device = self._device
        return between_processes(device, fastest_ns, self._clock.flags) if STEADY_WITHIN[device] else 0.0

    def _counted_pairs(self) -> int:
        return len(counted(s for s in self._samples if s.arm == "candidate"))

    def _median_ns(self, arm: str) -> float:
        return statistics.median(s.t_event_ns for s in self._samples if s.arm == arm)

    @property
    def _pairs(self) -> int:
        return len(self._samples) // len(ARMS)

    def _settle(self) -> None:
        """Time pairs until both arms are steady; the last pairs count, because they show that."""
        deadline = time.monotonic() + SETTLE_LIMIT_S
        kept = min(SETTLED_PAIRS, self._options.pairs // 2 * 2)
        while True:
            self._block()
            times = {arm: [s.t_event_ns for s in self._samples if s.arm == arm] for arm in ARMS}
            self._trial.candidate.set_reference_time(statistics.median(times["reference"]) / 1e9)
            fastest_ns = min(statistics.median(values[-FEW_READINGS:]) for values in times.values())
            # A coarse precision, or a large difference between processes, needs no steadier times.
            within = max(SETTLED_WITHIN[self._device], self._options.precision, self._between(fastest_ns))
            if all(settled(values, within) for values in times.values()):
                break
            if time.monotonic() > deadline:
                self._flags.add("drift")
                kept = 0
                break
        last = self._samples[len(self._samples) - len(ARMS) * kept :]
        self._samples = [replace(s, block=n // (2 * len(ARMS)), sequence=n) for n, s in enumerate(last)]
        if fastest_ns < RESOLVED_FROM_NS[self._device]:
            self._flags.add("resolution_limited")

    def _block(self) -> None:
        """Time two pairs, the second in reverse order."""
        block = self._pairs // 2
        for arms in (self._order, self._order[::-1]):
            self._pair(block, arms)

    def _pair(self, block: int, arms: tuple[str, ...]) -> None:
        before = self._monitor.read()
        readings = [self._clock.read(arm) for arm in arms]
        after = self._monitor.read()
        marked = self._monitor.disturbed(before, after)
        for reading in readings:
            sample = replace(
                reading,
                process=self._process,
                block=block,
                sequence=len(self._samples),
                sm_clock_mhz=after.sm_clock_mhz,
                power_mw=after.power_mw,
                temperature_c=after.temperature_c,
                throttle_reasons=after.throttle_reasons,
                marked=marked,
            )
            self._samples.append(sample)


def settled(values: list[int], within: float) -> bool:
    """Return whether the last few times have nearly the same median as the few before them."""
    if len(values) < 2 * FEW_READINGS:
        return False
    last = statistics.median(values[-FEW_READINGS:])
    before = statistics.median(values[-2 * FEW_READINGS : -FEW_READINGS])
    return abs(last - before) <= within * before + 500
