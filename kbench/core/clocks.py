"""The attestation rule: the judge's own clock confirms a time per call or not, and a row quotes one of two clocks.

On a GPU a round of K calls is queued behind a gate that the judge opens, and ends with a flag that it waits for.
`total = constant + K * time per call`. The constant (the gate opens, the contexts switch, the flag is seen) is measured
in rounds without a call, with the reference's worker. On an H200 it is 153 µs and varies by 0.5 µs (docs/timing.md).

On a CPU the judge's clock runs around each request of calls in a row: `wall = K * (time per call + overhead)`. The
overhead is measured on the reference's worker. A claim of the candidate's worker decides nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from kbench.core.stats import median_half_width

SWITCH_NS = 20_000
"""Time by which a polling kernel can shorten the constant: measured, 153 µs without and 133 µs behind one."""
LATE_NS = 25_000
"""Normal variation of the judge's check of results right after the flag: measured, 155 to 180 µs."""
VISIBLE_NS = 100_000
"""Chosen. Inputs are visible for 0.13 ± 0.05 ms before the gate opens (H100). A spinning kernel of the solution makes
that 1 to 2 ms longer (measured)."""
QUOTED_FROM = 0.98
"""A claim below this share of the judge's time is not quoted, however wide the interval is."""
HELD_WITHIN = 0.2
"""Largest half-width of a `held` time, as a share of it."""
HELD_ALONE = 1.1
"""Factor by which the shortest single call of a `held` time may exceed calls in a row. On an H200, 13 published kernels
of 11 to 930 µs took at most 1.04 times as long (results/calibration/single_calls_h200.csv)."""
CLAIMS_LESS_BELOW = 0.9
"""A claim below this share of the judge's interval is a warning: honest events agree within a percent."""
BATCHED_NS = 1_000_000
"""Chosen. Shortest `held` time on a CPU: what surrounds a call takes up to 0.1 ms."""
SLOWER_BESIDE = {"cuda": 1.03, "cpu": 1.1}
"""Chosen. Factor from which a reference was slowed: slower beside the candidate than alone."""
REPEATS = 7
"""Rounds or requests of one calibration: one more than the fewest whose median has an interval."""
SINGLES = 30
"""Largest number of single calls that are compared with calls in a row; other programs can only lengthen a call."""
GROSS, GROSS_NS = 2.0, 1_000_000
"""Chosen. Excess of a single call on a CPU, as a factor and in time, that threads which slept cannot explain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputExposure:
    """Time for which inputs were visible before the gate opened: while they were copied and L2 made cold."""

    visible_ns: int = 0
    input_bytes_shown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round, on the judge's clock: K calls between the opened gate and the raised flag."""

    calls: int
    total_ns: int
    late_ns: int
    """From the flag until the judge has read some of the results."""
    exposure: InputExposure = field(default_factory=InputExposure)
    event_ns: int = 0
    """The worker's claim about one call."""
    submit_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """The time of a round without its calls, with the half-width of its interval; and an overhead per call."""

    ns: float
    half_width_ns: float
    copy_ns: float = 0.0
    """Per call: a copy of its result, if the round includes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attested:
    """A time per call that the judge vouches for: within `half_width_ns` of the truth."""

    ns: float
    half_width_ns: float


def constant_of(empty: Sequence[Round]) -> Constant:
    """Return the constant from rounds of no call. Raises ValueError for no round."""
    totals = [float(each.total_ns) for each in empty]
    return Constant(ns=median(totals), half_width_ns=median_half_width(totals))


def per_call_ns(each: Round, constant: Constant) -> float:
    """Return the time per call of one round, at least one nanosecond."""
    return max(1.0, (each.total_ns - constant.ns) / each.calls - constant.copy_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineDelays:
    """Delays without any cheating, in ns: of the judge's checks, and of opening the gate while inputs are visible."""

    late_ns: float
    visible_ns: float
    """Time in a round without inputs."""
    copy_ns_per_byte: float = 0.0
    """Further time for each byte of inputs."""
    late_noise_ns: float = LATE_NS
    """Normal variation of `late_ns`."""


def measured_delays(reference: Sequence[Round], shown: Sequence[InputExposure]) -> BaselineDelays:
    """Return the delays of the reference's rounds, and of inputs `shown` without calls (none of them, and the most)."""
    most = max(each.input_bytes_shown for each in shown)
    least_ns = median(each.visible_ns for each in shown if each.input_bytes_shown < most or not most)
    longest_ns = median(each.visible_ns for each in shown if each.input_bytes_shown == most)
    return BaselineDelays(
        late_ns=median(each.late_ns for each in reference),
        visible_ns=least_ns,
        copy_ns_per_byte=max(0.0, longest_ns - least_ns) / max(1, most),
    )


def baseline_delays(
    reference: Sequence[Round], after: Sequence[Round], shown: Sequence[InputExposure]
) -> BaselineDelays:
    """Return the delays of the reference, as rounds and `shown` inputs `after` the candidate's death confirm them.

    A live candidate can delay the reference's checks to hide its own delay. The uncertainty is how much checks vary
    after its death, without the earliest and the latest.
    """
    alone = measured_delays(after, shown)
    beside_ns = median(each.late_ns for each in reference)
    late = sorted(each.late_ns for each in after)[1:-1] or [0]
    noise_ns = max(float(LATE_NS), float(late[-1] - late[0]))
    late_ns = alone.late_ns if beside_ns - alone.late_ns > noise_ns else beside_ns
    return replace(alone, late_ns=late_ns, late_noise_ns=noise_ns)


def in_full_ns(each: Round, constant: Constant, usual: BaselineDelays) -> float:
    """Return the time per call of one round, with all that may be hidden in it.

    A flag raised before the work is done makes the judge's check late; polling for inputs makes revealing them slow.
    """
    late_ns, shown = each.late_ns - usual.late_ns, each.exposure
    visible_ns = shown.visible_ns - usual.visible_ns - usual.copy_ns_per_byte * shown.input_bytes_shown
    hidden_ns = (late_ns if late_ns > usual.late_noise_ns else 0.0) + (visible_ns if visible_ns > VISIBLE_NS else 0.0)
    return per_call_ns(each, constant) + hidden_ns / each.calls


def attest(rounds: Sequence[Round], constant: Constant, usual: BaselineDelays) -> Attested:
    """Return the time per call of an arm over its rounds of one process. Raises ValueError for no round.

    A round's time in full includes hidden work. The gain that a solution may still have widens the interval.
    """
    times = [in_full_ns(each, constant, usual) for each in rounds]
    unseen_ns = constant.half_width_ns + SWITCH_NS + usual.late_noise_ns
    # A solution that writes results right to the copy's place saves the copy.
    unseen_ns = unseen_ns / median(each.calls for each in rounds) + constant.copy_ns
    return Attested(ns=median(times), half_width_ns=median_half_width(times) + unseen_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOverhead:
    """Difference of the judge's clock and the reference's worker's own, which runs trusted code.

    `ns` is for each call of a request, with its share of the request; one call alone takes `alone_ns` longer.
    """

    ns: float
    half_width_ns: float
    saved_ns: float
    """Part of it that a candidate may save: what exceeds an empty request."""
    alone_ns: float


def request_overhead(
    seen_ns: Sequence[float], worker_ns: Sequence[float], *, single_ns: float, empty_ns: float
) -> RequestOverhead:
    """Return the overhead of the reference's requests.

    Its calls take `seen_ns` by the judge's clock and `worker_ns` by its worker's. Its quickest request of one takes
    `single_ns`. An empty request takes `empty_ns` for each call of one. Raises ValueError without requests.
    """
    around = [seen - own for seen, own in zip(seen_ns, worker_ns, strict=True)]
    return RequestOverhead(
        ns=max(0.0, median(around)),
        half_width_ns=median_half_width(around),
        saved_ns=max(0.0, median(around) - empty_ns),
        alone_ns=max(0.0, single_ns - median(seen_ns)),
    )


def attest_requests(times_ns: Sequence[float], overhead: RequestOverhead) -> Attested:
    """Return the time per call of a candidate's requests on a CPU, less the overhead of the reference's.

    The half-width has the part of it that a candidate may save. Raises ValueError for no request.
    """
    half_width_ns = median_half_width(times_ns) + overhead.half_width_ns + overhead.saved_ns
    return Attested(ns=max(1.0, median(times_ns) - overhead.ns), half_width_ns=half_width_ns)


def attest_queued_single(single_ns: float, in_a_row: Attested) -> Attested | None:
    """Return the time of calls that take longer alone than in a row on a GPU; None where one alone takes as long.

    The calls of a round are in sight together, so several may be computed as one; one call alone may not.
    """
    alone_ns = single_ns - SWITCH_NS - LATE_NS
    if alone_ns <= HELD_ALONE * (in_a_row.ns + in_a_row.half_width_ns):
        return None
    return replace(in_a_row, ns=alone_ns)


def attest_single(single_ns: float, in_a_row_ns: float, overhead: RequestOverhead) -> str:
    """Compare the quickest request of one call on a CPU with calls in a row: `held`, `weak` or `together`.

    The calls of one request are in sight together, so several may be computed as one; one call alone may not. It takes
    longer by what the reference's does. A pool of threads that slept, or more code that is cold, makes it longer still:
    that is `weak`. Far beyond, the calls are computed together.
    """
    more_ns = single_ns - overhead.alone_ns
    if more_ns <= HELD_ALONE * in_a_row_ns:
        return "held"
    return "weak" if more_ns <= max(GROSS * in_a_row_ns, in_a_row_ns + GROSS_NS) else "together"


def claim_is_quoted(claim_ns: float, attested: Attested, *, vague: bool = False) -> bool:
    """Return whether a worker's own time is reported, which agrees with the judge's.

    Where the judge's is `vague`, a claim is reported that is not below its interval.
    """
    least_ns = attested.ns - attested.half_width_ns
    if vague:
        return claim_ns >= least_ns
    return max(QUOTED_FROM * attested.ns, least_ns) <= claim_ns <= attested.ns + attested.half_width_ns


def claims_less(claim_ns: float, attested: Attested) -> bool:
    """Return whether a worker's own time is far below the judge's, which deserves a warning."""
    return claim_ns < CLAIMS_LESS_BELOW * (attested.ns - attested.half_width_ns)


def is_slower_beside(beside_ns: Sequence[float], alone_ns: Sequence[float], device: str) -> bool:
    """Return whether the reference took longer while the candidate lived than after its death.

    Only the noise after its death is allowed for: a candidate that slows every second call makes the rest noisy.
    """
    return median(beside_ns) > SLOWER_BESIDE[device] * (median(alone_ns) + median_half_width(alone_ns))
