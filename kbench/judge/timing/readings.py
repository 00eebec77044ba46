"""What a clock says of one sample, and of a whole process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kbench.core.clocks import Attested
from kbench.wire.channel import Message
from kbench.wire.channel import field as wire_field


class Doubt(StrEnum):
    """Why a refusal by the clock may say nothing of the candidate, whose pairs are then timed once more."""

    NONE = "none"
    SLIGHT = "slight"
    """The claim is not grossly below the judge's time: on busy processors, each check of a process may be late."""
    BESIDE = "beside"
    """The reference is refuted too, in the rounds between the candidate's, which may be the candidate's doing."""
    ALONE = "alone"
    """The reference is refuted too, after the candidate's death: another program uses the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A worker's claim about calls in a row, beside what the judge's own clock saw."""

    event_ns: int
    """The median of the calls."""
    submit_ns: int
    asked_ns: int
    """On the judge's clock."""
    ended_ns: int
    """On the judge's clock: when the worker's tree was stopped, later by what it computed in the meantime."""
    slots: tuple[int, ...]
    numbers: tuple[tuple[Any, ...], ...]
    """Per slot, the Python numbers with a fraction among the results, as tensors."""
    process: int = 0
    """The worker, in its own PID namespace."""
    places: list[Any] = field(default_factory=list)
    """Per slot, where each result lies in the worker's memory, as told; none of those that were copied."""

    unchecked: str = ""
    """CUDA's words for a launch in these calls that the solution did not check, as its worker reports them."""

    @property
    def wall_ns(self) -> int:
        """The whole request, with what surrounds the calls, until nothing ran any more that could finish a result."""
        return self.ended_ns - self.asked_ns

    @classmethod
    def read(cls, answer: Message, asked_ns: int, ended_ns: int, slots: tuple[int, ...], numbers: Any) -> "Reply":
        """Return what a worker's answer says, with what the judge knows itself. Raises WireError."""
        event_ns, submit_ns, process = (
            wire_field(answer, name, int, minimum=0) for name in ("event_ns", "submit_ns", "process")
        )
        return cls(
            event_ns=event_ns,
            submit_ns=submit_ns,
            asked_ns=asked_ns,
            ended_ns=ended_ns,
            slots=slots,
            numbers=numbers,
            process=process,
            places=wire_field(answer, "places", list),
            unchecked=wire_field(answer, "unchecked", str),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOptions:
    """How a worker on a GPU makes the calls of a round."""

    gated: bool
    """Behind the judge's gate, or in a plain loop."""
    deliver: bool
    """Whether it copies each result into the judge's buffers at once."""
    keep: bool
    """Whether it keeps all results until the round is over."""
    replay: bool
    """Whether it replays CUDA graphs of the calls."""
    tell_last: int
    """How many of the results it tells of, the last ones: all of a candidate's, which must not know what is checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSample:
    """One sample of one arm: times per call by the worker's clock and by the judge's, in ns."""

    event_ns: int
    judge_ns: int
    submit_ns: int
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What the judge's clock says of a process: how long a call takes, on the device and in a plain loop (ns)."""

    clock: str
    """Whose times the samples quote: `events`, `gate`, `wall`, `host` or `judge`."""
    attestation: str
    attested: Attested | None = None
    wall_ns: Mapping[str, float] = field(default_factory=dict)
    """By arm."""
    flags: frozenset[str] = frozenset()
