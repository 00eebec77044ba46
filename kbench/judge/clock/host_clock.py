"""The clock on a CPU: the judge's own, around requests of calls in a row, less what surrounds the reference's.

Each arm has a worker of its own and gets the same requests; while one is called, the other is stopped. The judge reads
results from the memory of a stopped worker, so that no copy runs while its clock does.
"""

import itertools
import secrets
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kbench.core.clocks import (
    BATCHED_NS,
    HELD_WITHIN,
    REPEATS,
    SINGLES,
    attest_requests,
    attest_single,
    claim_is_quoted,
    claims_less,
    is_slower_beside,
    request_overhead,
)
from kbench.core.model import Sample, Timing
from kbench.judge.candidate import Reply
from kbench.judge.clock import FEW_READINGS, unplaced
from kbench.judge.clock.mapped_results import UnreadableError, layout_of_result
from kbench.judge.exchange import Trial
from kbench.process.channel import WireError
from kbench.process.shared_memory import TensorSpec
from kbench.sandbox import process_table

CALLS = 15
TARGET_NS = 20_000_000
"""Largest number, and time, of calls in a row whose median counts: the first call finds cold caches. With calls of 0.3
ms, `eager --quick` read 0.83 to 1.21 in eight runs with 5 in a row, and 0.94 to 1.05 in six with 15 (2 cores)."""
REST_S = 2e-3
"""Pause before a call, so that the call starts with a new time slice."""
LAST_REQUESTS = 4
"""Upper bound of the random number of requests before the request that ends in the kill."""
MOST_GAPS = 2
"""Largest span of a result in memory, as a multiple of its bytes. The worker copies a result with more gaps."""
HIGHEST_ADDRESS = 1 << 56


class HostClock:
    """Times both arms on a CPU."""

    flags: frozenset[str] = frozenset()

    def __init__(self, candidate: Trial, reference: Trial, *, fetches: bool):
        self._trials = {"candidate": candidate, "reference": reference}
        self._calls = 1
        self._timing: Timing | None = None
        self.overhead_ns = 0.0
        """Part of the judge's time of the reference's calls that is not theirs."""
        self._times: dict[str, list[float]] = {arm: [] for arm in self._trials}
        """Times per call, by the judge's clock."""
        self._own: list[float] = []
        """Times of the reference's calls, by its worker's clock."""
        self._alone: list[float] = []
        """Times of the reference's requests of one call."""
        self._fetches = fetches
        """True if results are read from the worker's memory, outside the timed request; else the workers copy them."""

    def prepare(self) -> None:
        """Find the number of calls of one sample.

        This method and those below raise UnreadableError if results cannot be read from the worker's memory.
        """
        for _ in range(FEW_READINGS):
            self.read("candidate"), self.read("reference")
        fastest = min(map(statistics.median, (self._times["candidate"], self._own)))
        self._calls = calls_of_a_sample(fastest, self._trials["candidate"].arena.count)
        self._times, self._own = {arm: [] for arm in self._trials}, []

    def read(self, arm: str) -> Sample:
        """Time a few calls of an arm in a row, each on fresh inputs; the pairing knows the place of the sample."""
        reply = self._ask(arm, self._timed_slots())
        judge_ns, event_ns = reply.wall_ns / self._calls, max(1, reply.event_ns)
        self._times[arm].append(judge_ns)
        if arm == "reference":
            self._own.append(reply.sum_ns / self._calls)
        return unplaced(arm, event_ns=event_ns, judge_ns=round(judge_ns), submit_ns=reply.submit_ns, calls=self._calls)

    def prove(self, event_ns: float, pairs: int) -> None:
        """Compare the candidate's calls in the last `pairs` with single calls, and its claim with the judge's time."""
        # The answer to a request that is not timed reports replaced functions.
        self._trials["candidate"].candidate.ask({"op": "report"})
        alone, theirs, mine = "held", self._times["reference"], self._times["candidate"][-pairs:]
        self._alone = [*self._singles_ns("reference")] if self._calls > 1 else []
        single_ns, empty_ns = min(self._alone, default=0.0), self._empty_ns() / self._calls
        overhead = request_overhead(theirs, self._own, single_ns=single_ns, empty_ns=empty_ns)
        attested = attest_requests(mine, overhead)
        if self._calls > 1:
            in_a_row_ns = statistics.median(mine)
            for single_ns in itertools.accumulate(self._singles_ns("candidate"), min):
                alone = attest_single(single_ns, in_a_row_ns, overhead)
                if alone == "held":
                    break
        if alone == "together":
            attested = replace(attested, ns=max(attested.ns, single_ns - overhead.alone_ns - overhead.ns))
        vague = attested.half_width_ns > HELD_WITHIN * attested.ns or attested.ns < BATCHED_NS
        attestation = "weak" if vague or alone != "held" or not self._fetches else "held"
        flags = {"claims_less": claims_less(event_ns, attested), "copies_results": not self._fetches}
        self.overhead_ns = overhead.ns
        self._timing = Timing(
            samples=(),
            timer="host" if claim_is_quoted(event_ns, attested, vague=attestation == "weak") else "judge",
            l2="none",
            attested_ns=attested.ns,
            attested_half_width_ns=attested.half_width_ns,
            attestation=attestation,
            wall_ns=statistics.median(self._times["candidate"]),
            ref_wall_ns=statistics.median(self._times["reference"]),
            flags=tuple(flag for flag, is_so in flags.items() if is_so),
        )

    def _empty_ns(self) -> float:
        """Return the time of the quickest request without calls, after as many draws: they leave caches cold.

        It goes to the reference, since a candidate could lengthen its own.
        """
        reference, times = self._trials["reference"].reference, []
        for _ in range(REPEATS):
            for _ in range(self._calls):
                reference.expect(reference.arguments())
            times.append(self._ask("reference", []).wall_ns)
        return min(times)

    def _singles_ns(self, arm: str) -> Iterator[float]:
        """Time requests of one call."""
        for _ in range(SINGLES if arm == "candidate" else REPEATS):
            slots = [secrets.randbelow(self._trials[arm].arena.count)]
            yield self._ask(arm, slots).wall_ns

    def conclude(self, event_ns: float) -> Timing:  # noqa: ARG002
        """Return what was found while the candidate lived, without samples."""
        assert self._timing is not None, "proved before"
        return self._timing

    def kill_verify(self) -> None:
        """Kill the worker after a last request that looks like any other; then check the results.

        A random number of requests comes before it, and all of them look like timed or single calls.
        """
        trial = self._trials["candidate"]
        # A solution that folded its parameters after they had not changed for a while is wrong here.
        trial.candidate.vary_weights(trial.reference)
        for last in (*[False] * secrets.randbelow(LAST_REQUESTS), True):
            slots = self._timed_slots() if secrets.randbelow(2) else [secrets.randbelow(trial.arena.count)]
            self._ask("candidate", slots, kill=last)

    def slower_beside(self) -> bool:
        """Return whether the reference was slower beside the candidate than it is alone, afterwards.

        The kernel can go on working for a tree that is stopped, as with timers.
        """
        pairs, singles, reference = [*self._times["reference"]], self._alone, self._trials["reference"]
        reference.candidate.push_weights(reference.reference)  # those of the last requests
        after = [self.read("reference").t_wall_ns for _ in range(REPEATS)]
        # Whose single calls may take longer, may compute those of a request together.
        slower_alone = bool(singles) and is_slower_beside(singles, [*self._singles_ns("reference")], "cpu")
        return slower_alone or is_slower_beside(pairs, after, "cpu")

    def close(self) -> None:
        """Do nothing: nothing is mapped."""

    def _timed_slots(self) -> list[int]:
        count = self._trials["candidate"].arena.count
        start = secrets.randbelow(count)
        return [(start + n) % count for n in range(self._calls)]

    def _ask(self, arm: str, slots: list[int], *, kill: bool = False) -> Reply:
        trial = self._trials[arm]
        reference = trial.reference
        expected = [reference.expect(reference.arguments()) for _ in slots]
        time.sleep(REST_S)
        reply = trial.call(expected, poison=False, slots=slots, kept=self._fetches, kill=kill and not self._fetches)
        if self._fetches:
            if not reference.aliased:
                for slot in slots:  # a result may be the inputs' own memory, mapped once more
                    trial.arena.overwrite_inputs(slot, but=reference.mutates)
            with trial.candidate.understood():
                fetch(trial.candidate.worker.pid, reply, [trial.arena.outputs(slot) for slot in slots])
            if kill:
                trial.candidate.kill()
        for slot, wanted in zip(slots, expected, strict=True):
            if arm == "candidate":
                trial.judge_values(slot, wanted)
            else:  # compared as well, so that both arms find the same caches
                trial.compare(trial.results(slot), wanted)
        return reply


def calls_of_a_sample(fastest_ns: float, slots: int) -> int:
    """Return the number of calls of one sample, each on its own slot; `fastest_ns` is the time of the faster arm."""
    return max(1, min(slots, CALLS, int(TARGET_NS / max(1.0, fastest_ns))))


def fetch(tree: int, reply: Reply, wanted: Sequence[Sequence[Tensor]]) -> None:
    """Copy results of a worker in the stopped process `tree` to the judge's own memory, slot by slot.

    Raises:
        UnreadableError: the worker has to copy them.
        WireError: the reported places cannot hold such results.
    """
    if len(reply.places) != len(wanted) or any(not isinstance(of_slot, list) for of_slot in reply.places):
        raise WireError("places of another number than calls")
    pairs: list[tuple[TensorSpec, Tensor]] = []
    for places, of_slot in zip(reply.places, wanted, strict=True):
        if len(places) != len(of_slot):
            raise WireError("places of another number than results")
        pairs += [(_place(each, want), want) for each, want in zip(places, of_slot, strict=True) if want.numel()]
    spans = sorted(spec.span for spec, _ in pairs)
    if any(before[1] > after[0] for before, after in itertools.pairwise(spans)):
        raise UnreadableError("results lie in each other's memory")
    pid = process_table.find_in_tree(tree, reply.process)
    if pid is None:
        raise WireError("the process of the results does not belong to the worker")
    try:
        for spec, want in pairs:
            _read(pid, spec, want)
    except OSError as error:
        raise UnreadableError(str(error)) from error


def _place(reported: Any, want: Tensor) -> TensorSpec:
    match reported:
        case [int() as address, list() as stride] if 0 <= address < HIGHEST_ADDRESS:
            pass
        case _:
            raise WireError("a place is an address and strides")
    if not address:
        raise UnreadableError("a result does not lie in memory as its shape says")
    spec = layout_of_result(want, address, stride)
    if spec.span[1] - address > MOST_GAPS * want.nbytes:
        raise UnreadableError("a result has gaps")
    return spec


def _read(pid: int, spec: TensorSpec, want: Tensor) -> None:
    begin, end = spec.span
    if spec.stride == want.stride():
        process_table.read_into(want.data_ptr(), pid, begin, end - begin)
        return
    there = torch.empty((end - begin) // want.element_size(), dtype=want.dtype)
    process_table.read_into(there.data_ptr(), pid, begin, end - begin)
    want.copy_(there.as_strided(spec.shape, spec.stride))
