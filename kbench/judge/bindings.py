"""A candidate bound to one shape: constructed and bound, and constructed anew after a failure."""

from collections.abc import Callable

from kbench.core.model import Status
from kbench.devices.backend import backend
from kbench.judge.arena import SLOT_BUDGET_BYTES, Arena, slot_bytes
from kbench.judge.candidate import Candidate
from kbench.judge.comparison import Tally
from kbench.judge.exchange import Trial
from kbench.judge.matching import Copied, WeightPlan
from kbench.judge.reference.reference import Reference
from kbench.judge.refusal import HARMLESS, RefusalError, WrongError
from kbench.judge.state import JudgeState


class BoundCandidate:
    """A candidate on one shape at a time; `begins` is called before each shape, since a compiler may take long."""

    def __init__(self, candidate: Candidate, judge: JudgeState, begins: Callable[[], None]):
        self.candidate = candidate
        self._judge = judge
        self._begins = begins
        self._loaded: Reference | None = None
        self._trial: Trial | None = None
        self._broken = False
        self._has_constructed = False  # in this worker
        self.arena: Arena | None = None
        self.tally = Tally()
        """Errors of the right calls at the problem's own shape."""
        self.second_model: RefusalError | None = None
        """Failure of a second model in one process, not in a fresh one; then each model gets a process."""

    def load(self, reference: Reference) -> None:
        """Construct the candidate for a reference, under one secret seed on both sides, if it is not yet."""
        if self._loaded is reference and not self._broken:
            return
        self._begins()
        if self._broken:
            self.close()
            self._revive()
        self._trial = self._loaded = None
        reference.constructs_on = "cpu" if self.candidate.plan.on_cpu else reference.device
        reference.restore(anew=True)
        self._load(reference)
        self._loaded = reference

    def _load(self, reference: Reference) -> bool:
        """Construct the candidate; return whether that took a fresh worker, because a second model fails."""
        renewed = self.second_model is not None and self._has_constructed
        if renewed:
            self._revive()
        try:
            self._construct(reference)
        except RefusalError as refusal:
            if refusal.status is not Status.INIT_FAILED or not self._has_constructed:
                raise
            self._revive()
            self._construct(reference)
            self.second_model, renewed = self.second_model or refusal, True
        self._has_constructed = True
        return renewed

    def _construct(self, reference: Reference) -> None:
        with self._judge.constructing(self.candidate.spec):
            self.candidate.load(reference)

    def _revive(self) -> None:
        self.candidate.revive(self._judge.fresh_worker(self.candidate.spec.compiler))
        self._broken = self._has_constructed = False
        self.candidate.prepare()

    def bound_to(self, reference: Reference, *, timed: bool = False) -> Trial:
        """Return the candidate bound to a shape, with new parameters if it follows changed ones."""
        self._judge.give_way(self.candidate)
        self.load(reference)
        if self._trial is None:
            queued = backend(self._judge.device).queues_calls and timed
            trial = self.rebound(reference, lends=queued or not timed, queued=queued)
            self.candidate.vary_weights(reference)
            self._trial = trial
        return self._trial

    def rebound(self, reference: Reference, *, lends: bool = True, queued: bool = False) -> Trial:
        """Bind the existing instance to a new arena, laid out after one call; a large one may lend its outputs."""
        if self.arena is not None:  # two shapes at a time may not fit
            self.candidate.ask({"op": "unbind"})
            self.arena.close()
            self.arena = None
            backend(reference.device).release_cached()
        expected = reference.expect(reference.arguments())
        is_large = slot_bytes(expected) > SLOT_BUDGET_BYTES[reference.device]
        lends = lends and is_large and reference.inputs.follow_seeds()
        if lends:
            # Small tensors in a large free block would keep it from being lent.
            backend(reference.device).release_cached()
        state = [t for _, t in reference.state()]
        self.arena = Arena(expected, state, reference.device, lends=lends, queued=queued)
        self.candidate.bind(reference, self.arena)
        tally = self.tally if reference is self._judge.reference else Tally()
        return Trial(reference, self.candidate, self.arena, tally)

    def constructed(
        self,
        reference: Reference,
        *,
        timed: bool = False,
        first: WeightPlan = WeightPlan(),  # noqa: B008 - frozen
    ) -> Trial:
        """Construct anew, bind, and call once, by one weight plan after the other; the first that is right is kept.

        Raises the RefusalError of the `first` plan if none is right.
        """
        trial, wrong = self._attempt(reference, first, timed=timed)
        if wrong is None:
            return trial
        for plan in self._further(first):
            try:
                trial, missed = self._attempt(reference, plan, timed=timed)
            except RefusalError as refusal:
                self.reconstruct_next(refusal)
                continue
            if missed is None:
                return trial
        raise wrong

    def _further(self, first: WeightPlan) -> list[WeightPlan]:
        """Return the plans that are left if the first one, which is bound, is wrong, in their order.

        Where parameters match, or there are none, and the constructors made them alike, no other plan gives other
        values. Else those of the constructor may be meant. On a GPU the two may have drawn on different devices, so
        that both are constructed on the CPU and moved.
        """
        candidate, ways = self.candidate, [first.copied]
        if candidate.weights != "seed":
            if not candidate.differing:
                return []
            ways += [Copied.ALL_BUT_BUFFERS] * bool(candidate.differing_buffers) + [Copied.NOTHING]
        here = [WeightPlan(copied=way) for way in ways[1:]]
        has_own_memory = backend(self._judge.device).has_own_memory
        return here + [WeightPlan(copied=way, on_cpu=True) for way in ways] * has_own_memory

    def _attempt(self, reference: Reference, plan: WeightPlan, *, timed: bool) -> tuple[Trial, WrongError | None]:
        """Construct anew, bind and call once; return an error for wrong values."""
        self._loaded = None
        self.candidate.follow(plan)
        trial = self.bound_to(reference, timed=timed)
        try:
            trial.exchange(oracle=True)
        except WrongError as wrong:
            return trial, wrong.with_traceback(None)  # its frames hold the tensors of the call
        return trial, None

    def seeded(self, reference: Reference, check: Callable[[], object]) -> None:
        """Construct anew under another seed for the bound shape, and check it; if that fails, in a fresh process."""
        self._judge.give_way(self.candidate)
        self._construct_again(reference)
        try:
            check()
        except RefusalError as refusal:
            if self.second_model is not None or refusal.status not in HARMLESS:
                raise
            self.second_model = refusal
            try:
                self._construct_again(reference)
                check()
            except RefusalError:
                self.second_model = None
                raise refusal from None

    def _construct_again(self, reference: Reference) -> None:
        assert self._trial is not None and self.arena is not None, "bound before"  # noqa: PT018
        self._trial.take_back()
        reference.restore(anew=True)
        if self._load(reference):
            self.candidate.bind(reference, self.arena)
            self._trial.clear_sent_scalars()
        else:
            self.candidate.push_weights(reference)

    def rebind_next(self) -> None:
        """Bind anew at the next use, because the worker has another arena."""
        self._trial = None

    def reconstruct_next(self, refusal: RefusalError | None = None) -> None:
        """Construct anew at the next use; in a fresh worker, unless a harmless refusal is the reason."""
        self._loaded = self._trial = None
        self._broken = refusal is None or refusal.status not in HARMLESS or self.candidate.has_ended

    def close(self) -> None:
        """Free the memory, also if the worker has ended."""
        self._trial = self._loaded = None
        if self.arena is not None:
            self.arena.close()
        self.arena = None
