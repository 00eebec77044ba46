"""Rounds of a worker that is none, for the judge's clock on a GPU: a test says what they take and what goes wrong."""

from types import SimpleNamespace

from kbench.core.clocks import InputExposure, Round
from kbench.core.model import Timing
from kbench.judge.clock.gate_clock import DeviceClock
from kbench.judge.clock.rounds import QUEUED_WITHIN_S, LateError, UnreadableError

CONSTANT_NS = 153_000


PLAIN_NS = 200_000


HOST_NS = 4_000


COPY_NS = 3_000


PAIRS = 8


class Arm:
    """The rounds of one worker: a device's time and a host's time for each call, and what goes wrong."""

    def __init__(self, *, ns: float, count: int = 16, queue: int = 256, host_ns: float = HOST_NS):
        self.ns, self.host_ns = ns, host_ns
        self.waits_ns = 0.0
        """What a single call waits for its turn on the device."""
        self.claim = 1.0
        """Share of the device's time that its events say."""
        self.late_above = 10**9
        """Calls that cannot be queued in time."""
        self.late_replays = False
        """Whether graphs of its calls cannot be queued either."""
        self.spoilt_by: Exception | None = None
        """What comes of recording its calls."""
        self.queues_within_s = 0.0
        """Time that it takes to queue, once."""
        self.within_s: list[float] = []
        self.replays = False
        self.one_buffer = False
        self.late_ns = 165_000
        self.visible_ns, self.noise_ns = 130_000, 25_000
        self.delivers = False
        self.asked: list[tuple[str, int]] = []
        self.killed = self.closed = False
        said = SimpleNamespace(
            log="its log", vary_weights=lambda *_: self.asked.append(("weights", 0)), kill=self._kill
        )
        arena = SimpleNamespace(count=count, queue=queue)
        self.taken_back = False
        self.trial = SimpleNamespace(candidate=said, arena=arena, reference=None, take_back=self._take_back)

    def _kill(self) -> None:
        self.killed = True

    def _take_back(self, *, dead: bool) -> None:
        self.taken_back = dead and self.killed

    def _of(self, calls: int, total_ns: float) -> Round:
        per_call = self.ns + COPY_NS * self.delivers
        event_ns = round(self.claim * per_call)
        exposure = InputExposure(visible_ns=self.visible_ns + 44_000 * calls, input_bytes_shown=67_000_000 * calls)
        return Round(
            calls=calls,
            total_ns=round(total_ns),
            late_ns=self.late_ns,
            exposure=exposure,
            event_ns=event_ns,
            submit_ns=HOST_NS,
        )

    def gated(self, calls: int, *, kill: bool = False, within_s: float = QUEUED_WITHIN_S) -> Round:
        self.asked.append(("gated", calls))
        self.within_s.append(within_s)
        assert calls <= (self.trial.arena.count if self.delivers else self.trial.arena.queue)
        too_many = calls >= self.late_above and (self.late_replays or not self.replays)
        if too_many or within_s < self.queues_within_s:
            raise LateError
        if self.one_buffer and calls > 1 and not self.delivers:
            raise UnreadableError
        self.killed |= kill
        waits_ns = self.waits_ns * (calls == 1)
        return self._of(calls, CONSTANT_NS + waits_ns + calls * (self.ns + COPY_NS * self.delivers))

    def plain(self, calls: int, *, kill: bool = False) -> Round:
        if self.replays and self.spoilt_by is not None:
            raise self.spoilt_by
        self.killed |= kill
        self.asked.append(("plain", calls))
        return self._of(calls, PLAIN_NS + calls * max(self.ns, self.host_ns))

    def show_again(self, calls: int) -> InputExposure:
        self.noise_ns = -self.noise_ns
        return InputExposure(visible_ns=130_000 + 44_000 * calls + self.noise_ns, input_bytes_shown=67_000_000 * calls)

    def loop(self, calls: int, slots: int) -> int:
        self.asked.append(("loop", calls))
        return round(PLAIN_NS + calls * max(self.ns, self.host_ns))

    def wake(self) -> None:
        self.asked.append(("wake", 0))

    def close(self) -> None:
        self.closed = True


def concluded(clock: DeviceClock, event_ns: float) -> Timing:
    clock.prove(event_ns, PAIRS)
    clock.kill_verify()
    return clock.conclude(event_ns)


def paired(clock: DeviceClock, pairs: int = 10) -> None:
    clock.prepare()
    for _ in range(pairs):
        clock.read("reference")
        clock.read("candidate")
