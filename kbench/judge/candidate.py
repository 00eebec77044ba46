"""A solution in its worker, as the judge sees it: load, bind, synchronise parameters, call, time rounds."""

import contextlib
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from kbench.build import cache
from kbench.catalog.problem import OPENING, Step
from kbench.core.errors import PluginError
from kbench.core.model import Status
from kbench.core.timed import BACKWARD, FORWARD
from kbench.devices.backend import backend
from kbench.judge.arena import Arena, encoded
from kbench.judge.matching import (
    Copied,
    WeightPlan,
    check_description,
    entries_of,
    scalar_outputs,
    synchronise,
    transposed,
    unmatched,
)
from kbench.judge.reference.expected import Expected
from kbench.judge.reference.reference import Reference
from kbench.judge.refusal import RefusalError, require_untampered
from kbench.judge.worker_link import SolutionSpec, WorkerLink
from kbench.process.channel import Message, encode_constants, list_of
from kbench.process.channel import field as wire_field
from kbench.process.shared_memory import Block, lay_out, view
from kbench.process.worker_start import SETUP_TIMEOUT_S, WorkerConfig, WorkerProcess

CALL_FLOOR_S = 10.0
CALL_FACTOR = 50.0
USUAL = {"poison": True, "late": False, "kept": False}


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


class Candidate(WorkerLink):
    """A solution in its worker, as the judge sees it."""

    def __init__(self, spec: SolutionSpec, config: WorkerConfig, worker: WorkerProcess):
        super().__init__(spec, config, worker)
        self._arena: Arena | None = None
        self._theirs: dict[str, str] = {}
        """Its names of parameters and buffers that match, by the reference's."""
        self.limit_s = config.options.call_timeout_s or CALL_FLOOR_S  # for one call
        self.calls = 0
        """Calls of the process so far, without those of rounds."""
        self._aliased: frozenset[str] = frozenset()
        self.weights, self.unmatched, self.transposed = "none", "", ""
        """Way in which parameters match (`name`, `order`, `seed`, `none`); why only by seed, unless they are the same
        and its constructor's values count; which are transposed."""
        self.follows = False
        """True if parameters change after construction; else they keep the values of both constructors."""
        self.plan = WeightPlan()
        self.differing: frozenset[str] = frozenset()
        """Parameters and buffers whose counterparts have other values, as both constructors made them."""
        self.differing_buffers: frozenset[str] = frozenset()
        self._is_compared, self._called = spec.is_reference, False

    def prepare(self) -> None:
        """Copy the artefacts to the worker, which opens the device once it is locked in."""
        try:
            if self.spec.artefacts:
                cache.CacheEntry(folder=Path(self.spec.artefacts)).copy_to(self.worker.scratch / "cache")
        except OSError as error:
            raise RefusalError(Status.BUILD_FAILED, cache.uncopied(error)) from error
        self.worker.open(self._config.options.mode, queues_calls=backend(self._config.device).queues_calls)
        try:
            self._refusing(self.worker.wait, SETUP_TIMEOUT_S, Status.HARNESS_ERROR)
        except RefusalError:
            self.kill()  # the answer may still come, and would be taken for one to the next request
            raise

    def load(self, reference: Reference) -> None:
        """Import the solution, construct its model, and find out how parameters can be synchronised."""
        self._aliased = reference.aliased
        self.set_reference_time(reference.call_s)
        request, block = load_request(self.spec, reference, self._config)
        fds = [block.fd] if request["blocks"] and block.fd is not None else []
        with contextlib.closing(block):
            options = self._config.options
            limit_s = options.import_timeout_s * (OPENING[Step.CONSTRUCT] if self.spec.builtin else 1)
            limit_s += options.build_timeout_s if self.spec.compiler == "programs" else 0
            answer = self.ask(request, fds, limit_s, Status.IMPORT_TIMEOUT)
        with self.understood():
            theirs = entries_of(wire_field(answer, "state", list))
        self.weights, names = synchronise(reference.state(), theirs)
        self.unmatched = self.transposed or unmatched(reference.state(), theirs, names)
        left = self.differing_buffers if self.plan.copied is Copied.ALL_BUT_BUFFERS else ()
        found = zip((our for our, _ in reference.state()), names, strict=False)
        self._theirs = {our: their for our, their in found if their and our not in left}
        if self.plan.copied is Copied.NOTHING:
            if self.weights == "name":
                self.unmatched = self.transposed
            self.weights, self._theirs = "seed", {}

    def follow(self, plan: WeightPlan) -> None:
        """Follow a plan from the next `load` on; one that is the first on its device compares both constructors."""
        self._is_compared = self.spec.is_reference or (plan.on_cpu == self.plan.on_cpu and self._is_compared)
        self.plan = plan

    def vary_weights(self, reference: Reference, names: Collection[str] | None = None, **how: bool) -> None:
        """Give the reference and the worker new parameters, all or those named, if the solution `follows` changes."""
        if self.follows and self.weights != "seed":
            reference.randomise(names, **how)
            self.push_weights(reference)

    def bind(self, reference: Reference, arena: Arena) -> None:
        """Give the worker the arena and the reference's parameters, as the plan says."""
        message, fds = arena.describe(self._config.options.mode)
        unmatched: Message = {} if self.matches else {"weights": []}
        message |= {"fresh": reference.reshapes, "gradients": self._gradients(reference), **unmatched}
        self.ask(message, fds)
        self._called, self._arena = False, arena
        if self.matches and not self._is_compared:
            self.differing, self._is_compared = frozenset(self._unlike(reference)), True
            self.differing_buffers = self.differing - {name for name, _ in reference.model.named_parameters()}
            self.transposed = transposed(reference.state(), arena.weight_views(), self._names(reference))
        self.push_weights(reference)

    def push_weights(self, reference: Reference, *, in_place: bool = False) -> None:
        """Make the worker's parameters equal the reference's: loaded as a checkpoint is, or copied `in_place`."""
        if not self.matches:
            return
        assert self._arena is not None, "bound before weights are pushed"
        for (_, tensor), mine in zip(reference.state(), self._arena.weight_views(), strict=True):
            mine.copy_(tensor.detach())
        backend(self._config.device).synchronize()
        self.ask({"op": "weights", "names": self._names(reference), "in_place": in_place})

    def require_weights_unchanged(self, reference: Reference) -> None:
        """Raise RefusalError if the worker's calls changed a parameter that the reference's calls do not change."""
        parameters = {name for name, _ in reference.model.named_parameters()} - reference.drifts
        changed = next((name for name in self._unlike(reference) if name in parameters), None)
        if changed is not None:
            raise RefusalError(Status.PARAMETER_MUTATED, f"a call changed the parameter `{changed}`", self.log)

    def _unlike(self, reference: Reference) -> list[str]:
        """Return the names of parameters and buffers whose values differ in the worker; none if they do not match."""
        if not self.matches:
            return []
        assert self._arena is not None, "bound before weights are read"
        names = self._names(reference)
        self.ask({"op": "read_weights", "names": names})
        pairs = zip(reference.state(), self._arena.weight_views(), names, strict=True)
        differs = {name: (ours.detach() != held).any() for (name, ours), held, their in pairs if their}
        answers = torch.stack([*differs.values()]).tolist() if differs else []
        return [name for name, is_other in zip(differs, answers, strict=True) if is_other]

    def call(self, slots: tuple[int, ...], expected: list[Expected], *, kill: bool, **how: bool) -> Reply:
        """Call the model on filled slots in the worker, and stop or kill it before its answer is read."""
        backend(self._config.device).synchronize()
        timeout_s, self.calls = self._limit_s(len(slots)), self.calls + len(slots)
        message = {"op": "call", "slots": [*slots], **USUAL, **how}
        # Sent while the worker is stopped: a process that wakes up may take this processor, and sees the inputs.
        self._refusing(lambda _: self.worker.post(message), timeout_s, Status.CALL_TIMEOUT)
        self._resume()
        answer = self._answer(self.worker.hear, timeout_s, Status.CALL_TIMEOUT)
        (self.kill if kill else self.pause)()
        # The tree's computing after its answer counts, too: it may finish a result.
        wall_ns = max(self.worker.channel.received_ns, self.worked_until_ns) - self.worker.woken_ns
        with self.understood():
            return Reply.read(answer, wall_ns, slots, self._numbers(answer, expected))

    def _limit_s(self, calls: int) -> float:
        timeout_s = self.limit_s * max(1, calls)
        if self.spec.compiler and not self._called:
            # The first call on a shape or layout traces and compiles: that is importing rather than calling.
            options = self._config.options
            timeout_s += options.build_timeout_s if self.spec.compiler == "programs" else options.import_timeout_s
        self._called = True
        return timeout_s

    def begin_round(self, slots: Sequence[int], number: int, options: RoundOptions) -> int:
        """Ask for a round of calls; return when, on the judge's clock (ns)."""
        self._resume()
        message = {"op": "round", "slots": [*slots], "number": number, **asdict(options)}
        started = time.perf_counter_ns()
        self._refusing(lambda _: self.worker.post(message), self.limit_s, Status.CALL_TIMEOUT)
        return started

    def announced(self, within_s: float) -> Message | None:
        """Return the first message of a round; None if it does not come in time, because calls wait for the device."""
        try:
            message: Message = self._refusing(self.worker.hear, within_s, Status.CALL_TIMEOUT)
        except RefusalError as refusal:
            if refusal.status is Status.CALL_TIMEOUT:
                return None
            raise
        return message

    def finish_round(self, calls: int) -> Message:
        """Return the last message of a round, and ignore reports of progress before it."""
        until = time.monotonic() + self._limit_s(calls)
        answer: Message = {"progress": ""}
        while "progress" in answer:
            answer = self._refusing(self.worker.hear, max(0.0, until - time.monotonic()), Status.CALL_TIMEOUT)
        require_untampered(answer, self.log)
        return answer

    def check_outputs(self, described: Any, expected: Expected) -> tuple[Any, ...]:
        """Check the description of one call's outputs; return the numbers among them. Raises RefusalError."""
        with self.understood():
            return self._numbers({"outputs": [described]}, [expected])[0]

    def _numbers(self, answer: Message, expected: list[Expected]) -> tuple[tuple[Any, ...], ...]:
        """Return the numbers among the outputs, checked by `check_description`. Raises WireError, RefusalError."""
        described = list_of(answer, "outputs", len(expected))
        for description, wanted in zip(described, expected, strict=True):
            fault = check_description(description, wanted, self._config.device, self._aliased)
            if fault is not None:
                raise RefusalError(*fault, self.log)
        return tuple(scalar_outputs(d, e) for d, e in zip(described, expected, strict=True))

    @property
    def matches(self) -> bool:
        """True if its parameters match the reference's, so that they can be set from outside."""
        return self.weights in {"name", "order"}

    def _names(self, reference: Reference) -> list[str | None]:
        """Return its names of the reference's parameters and buffers, in their order; None for one that it lacks."""
        return [self._theirs.get(our) for our, _ in reference.state()]

    def _gradients(self, reference: Reference) -> Message | None:
        """Return the gradients that calls return, with its own names of parameters. Raises RefusalError."""
        asked = reference.gradients
        if asked is not None and asked.parameters and self.weights == "seed":
            reason = "parameters match the reference's by seed only, so their gradients have no names: use its names"
            # After calls at another shape, it is a lack of this one.
            raise RefusalError(Status.WRONG_OUTPUT if self.calls else Status.NOT_VERIFIED, reason, self.log)
        if asked is None:
            return None
        return asdict(
            replace(asked, parameters={of: self._theirs.get(our, our) for of, our in asked.parameters.items()})
        )

    def set_reference_time(self, seconds: float) -> None:
        """Derive the time limit of a call from the reference's time."""
        if self._config.options.call_timeout_s is None:
            self.limit_s = max(CALL_FLOOR_S, CALL_FACTOR * seconds)

    def revive(self, worker: WorkerProcess) -> None:
        """Continue in a fresh worker, which has to be prepared."""
        self.kill()
        self._use(worker)
        self._arena, self.calls = None, 0


def load_request(spec: SolutionSpec, reference: Reference, config: WorkerConfig) -> tuple[dict[str, Any], Block]:
    """Return the `load` request and the block that holds the constructor's tensor arguments."""
    arguments, keywords = reference.problem.init_inputs(reference.init_seed, reference.constructs_on)
    try:
        tree, leaves = encoded([arguments, keywords])
    except PluginError:  # the worker makes arguments that are no JSON itself, from the same file and seed
        tree, leaves = None, []
    specs, nbytes = lay_out(leaves)
    example, blanks = encoded(reference.blank[: -1 if reference.gradients else None])
    block = Block.allocate(nbytes, config.device)
    for leaf, place in zip(leaves, specs, strict=True):
        view(place, block.bytes).copy_(leaf)
    request = {
        "op": "load",
        "path": spec.path,
        "builtin": spec.builtin,
        "entry": spec.entry,
        "problem": spec.problem,
        "overrides": encode_constants(reference.overrides),
        "timed": FORWARD if reference.gradients is None else BACKWARD,
        "allow_tf32": config.options.allow_tf32,
        "eval_mode": reference.eval_mode,
        "construct_on": reference.constructs_on,
        "seed": reference.init_seed,
        "blocks": [block.descriptor] if leaves else [],
        "tensors": specs,
        "arguments": tree,
        "example": [example, lay_out(blanks)[0]],
    }
    return request, block
