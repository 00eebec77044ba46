"""Readings of clocks: of one sample, and of a whole process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kbench.core.clocks import Attested
from kbench.process.channel import Message
from kbench.process.channel import field as wire_field

FEW_READINGS = 3
"""Readings whose median is a first estimate: of loops and of sizing requests; pairs settle by two such medians."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A worker's claim about calls in a row, and the readings of the judge's own clock."""

    event_ns: int
    """Claimed time: the median of the calls."""
    submit_ns: int
    sum_ns: int
    """Sum of the claimed times of all calls."""
    wall_ns: int
    """Time of the whole request on the judge's clock, until nothing ran any more that could finish a result."""
    slots: tuple[int, ...]
    numbers: tuple[tuple[Any, ...], ...]
    """Python numbers with a fraction among the results, as tensors, by slot."""
    process: int = 0
    """Process id of the worker, in its own PID namespace."""
    places: list[Any] = field(default_factory=list)
    """Places of the results in the worker's memory, by slot, as it reports them; empty for copied ones."""

    unchecked: str = ""
    """CUDA's error of a launch in these calls that the solution did not check, as its worker reports it."""
    peak_bytes: int = 0
    """Memory of torch's that a call took at its peak beyond inputs and outputs, as its worker reports it (GPU)."""

    @classmethod
    def read(cls, answer: Message, wall_ns: int, slots: tuple[int, ...], numbers: Any) -> "Reply":
        """Join a worker's answer with the judge's own reading. Raises WireError."""
        names = ("event_ns", "submit_ns", "sum_ns", "process", "peak_bytes")
        counts = {name: wire_field(answer, name, int, minimum=0) for name in names}
        places, unchecked = wire_field(answer, "places", list), wire_field(answer, "unchecked", str)
        return cls(wall_ns=wall_ns, slots=slots, numbers=numbers, places=places, unchecked=unchecked, **counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOptions:
    """Instructions to a worker on a GPU for the calls of a round."""

    gated: bool
    """True: behind the judge's gate; False: in a plain loop."""
    deliver: bool
    """Copy each result into the judge's buffers at once."""
    keep: bool
    """Keep all results until the round is over."""
    replay: bool
    """Replay CUDA graphs of the calls."""
    report_last: int
    """Number of the last results whose places are reported: all of a candidate's, so that it cannot know the checked
    ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSample:
    """One sample of one arm: times per call by the worker's clock and by the judge's, in ns."""

    event_ns: int
    judge_ns: int
    submit_ns: int
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """Conclusion of the judge's clock about a process: times of a call on the device and in a plain loop, in ns."""

    clock: str
    """Clock that the samples quote: `events`, `host`, `judge` or `wall`."""
    attestation: str
    attested: Attested | None = None
    wall_ns: Mapping[str, float] = field(default_factory=dict)
    """Wall time of a call, by arm."""
    overhead_ns: float = 0.0
    """Part of the judge's time of the reference's calls that is not theirs (CPU)."""
    flags: frozenset[str] = frozenset()
