"""Rounds without a device: a worker of plain tensors behind a gate of plain Python, judged as the real one is."""

import contextlib
import itertools
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_device import MEMORY, handle, installed

from kbench.core.model import Status
from kbench.judge.arena import Arena
from kbench.judge.candidate import RoundOptions
from kbench.judge.clock.batch import Batch, RoundStep
from kbench.judge.clock.rounds import CHECKED, LateError, Rounds, UnreadableError
from kbench.judge.exchange import Trial
from kbench.judge.reference.drawing import Arguments, secret_seed
from kbench.judge.reference.expected import Expected
from kbench.judge.refusal import RefusalError
from kbench.process.channel import WireError

SIZE = 100
ONE_BY_ONE: Any = SimpleNamespace(stage=lambda _calls: False)
"""In place of recorded draws."""


@pytest.fixture(autouse=True)
def without_a_device() -> Iterator[None]:
    with installed():
        yield


class Gate:
    """Lets a worker of plain tensors go."""

    def __init__(self, worker: "Worker"):
        self._worker = worker
        self.number, self.opened = 0, []

    def next_round(self) -> int:
        self.number += 1
        return self.number

    def open(self) -> None:
        self.opened.append(self.number)
        self._worker.compute()

    def open_and_wait(self, timeout_s: float, ended: Any) -> int | None:
        self.open()
        assert callable(ended)
        return None if self._worker.hangs else 1_153_000


class Worker:
    """The judge's handle on a worker that doubles its inputs, well or badly."""

    log, limit_s, hangs, late = "its log", 10.0, False, False
    draws_numbers = False

    def __init__(self, arena: Arena):
        self.arena, self.gate = arena, Gate(self)
        self.said: list[str] = []
        self.worker, self.channel = self, SimpleNamespace(has_news=lambda: False, received_ns=0)
        self.told: dict[str, Any] = {}
        self.leaves_out: tuple[int, ...] = ()
        self.computes_afterwards = False
        self.seen: list[list[torch.Tensor]] = []
        self.order: list[int] = []
        self.tells_last = 0
        self.replayed: list[bool] = []
        self._lent = False

    def place(self, slot: int) -> list[Any]:
        return [0, 512 * slot, [1]]

    def begin_round(self, slots: Sequence[int], number: int, options: RoundOptions) -> int:
        self.said.append("begin gated" if options.gated else "begin")
        self.order, self.delivers, self.tells_last = list(slots), options.deliver, options.report_last
        self.replayed.append(options.replay)
        if not options.gated:
            self.compute()
        self.channel.received_ns = 5_000_000
        return 1_000_000

    def announced(self, within_s: float) -> Any:
        self.seen.append([self.arena.inputs(slot)[0].clone() for slot in sorted(set(self.order))])
        return None if self.late else self.message() | self.told

    def message(self) -> dict[str, Any]:
        slots = self.order[-self.tells_last :]
        places = [] if self.delivers else [[self.place(slot)] for slot in slots]
        return {"outputs": [[slot] for slot in slots], "places": places, "handles": [handle(1), handle(2)]}

    def compute(self, *, afterwards: bool = False) -> None:
        if self.computes_afterwards is not afterwards:
            return
        for number, slot in enumerate(self.order):
            result = self.arena.inputs(slot)[0] * (1 if number in self.leaves_out else 2)
            if self.delivers:
                self.arena.outputs(slot)[0].copy_(result)
            else:
                _, offset, _ = self.place(slot)
                MEMORY[1][offset : offset + 4 * SIZE].view(torch.float32).copy_(result)

    def finish_round(self, calls: int) -> dict[str, Any]:
        self.said.append("finish")
        self.compute(afterwards=True)
        return {"event_ns": 10_000, "submit_ns": 4_000} | self.message() | self.told

    def check_outputs(self, described: Any, expected: Expected) -> tuple[Any, ...]:
        self.said.append(f"check {described[0]}")
        return ()

    def pause(self) -> None:
        self.said.append("pause")

    def kill(self) -> None:
        self.said.append("kill")

    def ask(self, message: dict[str, Any], _fds: Sequence[int] = ()) -> None:
        what = message["op"]
        assert what != "arguments" or self.draws_numbers, "no argument but tensors"
        assert what != "lend" or not self._lent, "the memory that was lent is taken back before more is"
        self._lent = what == "lend" or (self._lent and what != "take_back")
        self.said.append(what)

    @contextlib.contextmanager
    def understood(self) -> Any:
        try:
            yield
        except WireError as error:
            raise RefusalError(Status.PROTOCOL_ERROR, str(error), self.log) from error


class Known(Trial):
    """Values that are right or not without a rule."""

    checked: list[int]

    def judge_values(self, slot: int, expected: Expected, truth: Any = None, outputs: Any = None, **_: Any) -> Any:
        self.checked.append(slot)
        (got,) = self.results(slot, outputs)
        if not torch.equal(got, expected.tensors[0]):
            raise RefusalError(Status.WRONG_VALUE, f"slot {slot}", "")


def bound(*, lends: bool = False, draws_numbers: bool = False) -> Known:
    def arguments(seed: int | None = None, *_: Any) -> Arguments:
        seed = secret_seed() if seed is None else seed

        def draw() -> list[Any]:
            drawn = torch.randn(SIZE, generator=torch.Generator().manual_seed(seed))
            return [drawn, seed] if draws_numbers else [drawn]

        return Arguments(draw)

    def expect(drawn: list[Any]) -> Expected:
        made.candidate.said.append("expect")
        return Expected(arguments=drawn, leaves=[("output", drawn[0] * 2)])

    first = Expected(arguments=arguments(0), leaves=[("output", torch.empty(SIZE))])
    arena = Arena(first, [], "cpu", queued=True, lends=lends, slots=1 if lends else None)
    inputs = SimpleNamespace(tensor_paths=("x",))
    known = {"device": "cpu", "mutates": frozenset(), "gradients": None, "inputs": inputs}
    reference = SimpleNamespace(arguments=arguments, expect=expect, **known)
    made = Known(reference, Worker(arena), arena)
    made.checked = []
    made.candidate.draws_numbers = draws_numbers
    return made


@pytest.fixture
def trial() -> Known:
    return bound()


@pytest.fixture
def worker(trial: Known) -> Any:
    return trial.candidate


def judged(trial: Known) -> Rounds:
    return Rounds(trial, None, ONE_BY_ONE, judged=True)


# --- what is asked of a round ------------------------------------------------------


@pytest.mark.parametrize(("calls", "checked"), [(0, 4), (1, 4), (2, 4), (7, 4), (100, 4), (100, 0)])
def test_calls_come_in_an_order_that_is_drawn_and_the_last_is_always_checked(trial: Known, calls: int, checked: int):
    asked, orders = Counter[int](), set()
    for _ in range(20):
        batch = Batch(trial, calls, checked, ONE_BY_ONE, gated=True)
        assert sorted(batch.order) == list(range(calls))
        assert set(batch.checked) <= set(batch.order)
        assert max(0, min(calls, checked) - 1) <= len(batch.checked) <= min(calls, checked)
        if calls and checked:
            assert batch.order[-1] in batch.checked
        orders.add(tuple(batch.order))
        asked.update(batch.order.index(slot) for slot in batch.checked)
    if calls == 100:
        assert len(orders) == 20
    if calls == 7:
        assert len(asked) == 7, "any call may be checked"


STEPS = {
    RoundStep.FILLED: Batch.fill,
    RoundStep.SHOWN: lambda b: b.reveal(None),
    RoundStep.CHECKED: lambda b: [*b.expected()],
}


def test_a_round_takes_its_steps_in_one_order(trial: Known):
    """Nothing else keeps inputs hidden until the queue is closed, and results from being finished later."""
    order = [*RoundStep]
    for taken, wrong in itertools.product(range(len(order) + 1), RoundStep):
        batch = Batch(trial, 8, 4, ONE_BY_ONE, gated=True)
        for step in order[:taken]:
            STEPS.get(step, lambda b, step=step: b.enter(step))(batch)
        if taken == len(order) or wrong is not order[taken]:
            with pytest.raises(RuntimeError, match="next step"):
                STEPS.get(wrong, lambda b, step=wrong: b.enter(step))(batch)


def test_inputs_are_new_in_every_call_and_in_no_slot_before_the_gate_opens(trial: Known, worker: Worker):
    of_trial = judged(trial)
    for _ in range(2):
        of_trial.gated(8)
    before, between = worker.seen
    after = [trial.arena.inputs(slot)[0] for slot in range(8)]
    for one, two, three in zip(before, between, after, strict=True):
        assert not (one == three).any()
        assert not (two == three).any()
    assert len({tuple(x.tolist()) for x in after}) == 8


def test_recorded_draws_are_staged_under_the_inputs_that_are_checked(trial: Known):
    drawn = torch.arange(8 * SIZE, dtype=torch.float32).view(8, SIZE)

    def stage(calls: int) -> bool:
        for slot in range(calls):
            trial.arena.stage(slot, [drawn[slot]])
        return True

    batch = Batch(trial, 8, 2, SimpleNamespace(stage=stage), gated=True)
    batch.fill()
    batch.give_up()
    for slot in range(8):
        known = batch.checked.get(slot)
        assert torch.equal(trial.arena.inputs(slot)[0], drawn[slot] if known is None else known[0])


def test_a_round_is_told_by_both_clocks(trial: Known, worker: Worker):
    seen = judged(trial).gated(8)
    assert (seen.calls, seen.total_ns, seen.event_ns, seen.submit_ns) == (8, 1_153_000, 10_000, 4_000)
    assert seen.late_ns > 0
    assert 125_000 <= seen.exposure.visible_ns < 50_000_000, "the device's time, and until the gate is opened"
    assert seen.exposure.input_bytes_shown >= 8 * 4 * SIZE
    assert worker.said[:4] == ["begin gated", "finish", "pause", "expect"], (
        "the device is as cool as before the reference"
    )
    assert "pause" in worker.said, "what is written after it is written by nobody"
    assert CHECKED - 1 <= len(trial.checked) <= CHECKED
    assert worker.order[-1] in trial.checked


def test_inputs_are_shown_again_for_the_time_that_it_takes(trial: Known, worker: Worker):
    of_trial = judged(trial)
    shown = of_trial.gated(8).exposure
    for calls, nbytes in ((0, 0), (8, shown.input_bytes_shown)):
        again = of_trial.show_again(calls)
        assert (again.input_bytes_shown, again.visible_ns >= 125_000) == (nbytes, True)
    assert of_trial.gated(8).calls == 8, "and rounds go on"


def test_inputs_are_made_while_the_worker_queues_unless_it_must_be_told_of_numbers_first():
    for draws_numbers, order in ((False, ["begin gated", "stage"]), (True, ["arguments", "stage", "begin gated"])):
        trial = bound(draws_numbers=draws_numbers)
        said, stage = trial.candidate.said, trial.arena.stage
        trial.arena.stage = lambda *given, stage=stage, said=said: [said.append("stage"), stage(*given)]
        judged(trial).gated(1)
        assert said[: len(order)] == order


def test_graphs_are_replayed_in_rounds_but_a_loop_is_what_most_code_does(trial: Known, worker: Worker):
    of_trial = judged(trial)
    of_trial.gated(2)
    of_trial.replays = True
    of_trial.gated(2)
    of_trial.plain(2)
    of_trial.loop(2, 2)
    assert worker.replayed == [False, True, True, False, False], "a loop of none goes before a loop"


def test_a_round_of_no_call(trial: Known, worker: Worker):
    seen = judged(trial).gated(0)
    assert (seen.total_ns, seen.exposure.input_bytes_shown) == (1_153_000, 0)
    assert trial.checked == []


def test_the_reference_is_not_checked_and_goes_on(trial: Known, worker: Worker):
    Rounds(trial, None, ONE_BY_ONE, judged=False).gated(8)
    assert (trial.checked, worker.said) == ([], ["begin gated", "finish"])


def test_a_candidate_tells_of_all_its_results_and_the_reference_of_those_that_are_looked_at(trial, worker):
    for judges, told in ((True, 8), (False, CHECKED)):
        Rounds(trial, None, ONE_BY_ONE, judged=judges).gated(8)
        assert worker.tells_last == told, "who is checked must not know where"
        found = Rounds(trial, None, ONE_BY_ONE, judged=judges)
        found.delivers = True
        found.plain(8)
        assert worker.tells_last == 8


# --- who cheats ----------------------------------------------------------------------


def test_who_leaves_out_one_call_in_ten_is_seen_soon(trial: Known, worker: Worker):
    worker.leaves_out = tuple(range(0, 40, 10))
    of_trial = judged(trial)

    def rounds_of(number: int) -> None:
        for _ in range(number):
            of_trial.gated(40)

    with pytest.raises(RefusalError) as refused:
        rounds_of(60)
    assert refused.value.status is Status.WRONG_VALUE


@pytest.mark.parametrize("comes", ["with the answer", "while results are judged"])
def test_results_that_come_after_the_flag_are_seen(trial: Known, worker: Worker, comes: str):
    worker.computes_afterwards = True
    if comes == "while results are judged":
        worker.finish_round = lambda _calls: {"event_ns": 10_000, "submit_ns": 4_000}
        computed_while_judged(trial)
    with pytest.raises(RefusalError, match="were not complete") as refused:
        judged(trial).gated(8)
    assert refused.value.status is Status.UNFINISHED_OUTPUT


@pytest.mark.parametrize("comes", ["in time", "while results are judged"])
@pytest.mark.parametrize(("delivers", "lends"), [(False, False), (True, False), (True, True)])
def test_wrong_values_are_told_and_late_ones_are_late(delivers: bool, lends: bool, comes: str):
    trial = bound(lends=lends)
    of_trial, worker = judged(trial), trial.candidate
    of_trial.delivers = delivers
    worker.leaves_out = (0,)
    late = comes != "in time"
    if late:
        worker.computes_afterwards = True
        worker.finish_round = lambda _: {"event_ns": 10_000, "submit_ns": 4_000} | worker.message()
        computed_while_judged(trial)
    for round_of in [of_trial.gated] + [of_trial.plain] * delivers:
        with pytest.raises(RefusalError) as refused:
            round_of(1)
        assert refused.value.status is (Status.UNFINISHED_OUTPUT if late else Status.WRONG_VALUE)
        trial.take_back()


def test_what_one_checked_call_was_to_return_is_gone_before_the_next_is_computed(trial: Known):
    expect, made = trial.reference.expect, []

    def expects(arguments: list[Any]) -> Expected:
        assert not [one for one in made if one() is not None]
        found = expect(arguments)
        made.append(weakref.ref(found.tensors[0]))
        return found

    trial.reference.expect = expects
    judged(trial).gated(8)
    assert len(made) >= CHECKED - 1


def computed_while_judged(trial: Known) -> None:
    """Have the worker's results ready just when the first of them is judged: work that goes on behind its answer."""
    worker: Any = trial.candidate
    expect = trial.reference.expect

    def expects(arguments: list[Any]) -> Expected:
        worker.compute(afterwards=True)
        return expect(arguments)

    trial.reference.expect = expects


def test_nobody_raises_the_flag(trial: Known, worker: Worker):
    worker.hangs = True
    with pytest.raises(RefusalError, match="no answer within 10 s") as refused:
        judged(trial).gated(8)
    assert refused.value.status is Status.CALL_TIMEOUT


def test_a_changed_input_is_seen(trial: Known, worker: Worker):
    finish = worker.finish_round

    def finish_round(calls: int) -> dict[str, Any]:
        trial.arena.inputs(worker.order[-1])[0][-1] += 1  # the first ones of the arena may be read early
        return finish(calls)

    worker.finish_round = finish_round
    with pytest.raises(RefusalError) as refused:
        judged(trial).gated(8)
    assert (refused.value.status, refused.value.reason) == (
        Status.INPUT_MUTATED,
        "a call changed its input `x`",
    )


@pytest.mark.parametrize(
    "told",
    [
        {"places": []},
        {"places": "nowhere"},
        {"handles": None},
        {"places": [[[0, 0, [1]]]] * 7},
        {"places": [[["0", 0, [1]]]] * 8},
        {"places": [[]] * 8},  # though a result is described
        {"outputs": [[0]] * 3},
        {"outputs": None},
        {"event_ns": "soon"},
        {"event_ns": -1},
    ],
)
def test_nonsense_is_the_workers_own_fault(trial: Known, worker: Worker, told: dict[str, Any]):
    worker.told = told
    with pytest.raises(RefusalError) as refused:
        judged(trial).gated(8)
    assert refused.value.status is Status.PROTOCOL_ERROR


def test_a_killed_worker_is_asked_nothing_more_and_what_it_left_is_checked(trial: Known, worker: Worker):
    told = judged(trial).gated(8, kill=True)
    assert (told.event_ns, told.submit_ns) == (0, 0)
    assert [word for word in worker.said if not word.startswith(("check", "expect"))] == ["begin gated", "kill"]
    assert worker.order[-1] in trial.checked
    worker.leaves_out = (7,)
    with pytest.raises(RefusalError):
        judged(trial).gated(8, kill=True)


# --- what cannot be queued, or looked at where it lies -----------------------------------


def test_who_waits_for_the_device_is_let_go_and_stopped(trial: Known, worker: Worker):
    worker.late = True
    with pytest.raises(LateError):
        judged(trial).gated(8)
    assert worker.gate.opened == [1]
    assert worker.said == ["begin gated", "finish", "pause"]
    worker.late = False
    assert judged(trial).gated(8).calls == 8, "and can be asked again"


@pytest.mark.parametrize(
    ("place", "mappable"),
    [
        (lambda slot: [0, 512 * slot, [1]], True),
        (lambda slot: [0, 4 * SIZE * slot, [1]], True),  # side by side
        (lambda slot: [slot % 2, 512 * slot, [1]], True),
        (lambda slot: [0, 0, [1]], False),  # one buffer
        (lambda slot: [0, 4 * (SIZE - 1) * slot, [1]], False),  # the last element is the next one's first
        (lambda slot: [0, 512 * (slot % 7), [1]], False),  # a ring of seven
        (lambda slot: [-1, 0, []], False),  # memory of another process, or of a pool
        (lambda slot: [-1 if slot == 3 else 0, 512 * slot, [1]], False),
    ],
)
def test_results_need_memory_of_their_own_that_can_be_mapped(trial: Known, worker: Worker, place: Any, mappable: bool):
    worker.place = place
    if mappable:
        batch = Batch(trial, 8, 4, ONE_BY_ONE, gated=True)
        worker.order, worker.delivers = batch.order, False
        found = judged(trial)._places(batch, worker.message())
        assert sorted(found) == list(range(8))
        return
    with pytest.raises(UnreadableError):
        judged(trial).gated(8)
    assert worker.gate.opened == [1], "what is queued must run"
    assert worker.said == ["begin gated", "finish", "pause"]


def test_results_of_another_structure_are_for_their_description_to_tell(trial: Known, worker: Worker):
    worker.told = {"places": [[]] * 8}
    found = judged(trial)
    batch = Batch(trial, 8, 4, ONE_BY_ONE, gated=True)
    worker.order, worker.delivers = batch.order, False
    assert found._places(batch, worker.message() | worker.told) == {}
    assert found._early_places(batch, {}) == [trial.arena.any_place()] * CHECKED


@pytest.mark.parametrize("calls", [0, 1, 3, 8])
def test_every_round_is_looked_at_in_as_many_places(trial: Known, worker: Worker, calls: int):
    for of_arm, checked in ((judged(trial), CHECKED), (Rounds(trial, None, ONE_BY_ONE, judged=False), 0)):
        batch = Batch(trial, calls, checked, ONE_BY_ONE, gated=True)
        worker.order, worker.delivers, worker.tells_last = batch.order, False, (checked and calls) or CHECKED
        assert len(of_arm._early_places(batch, of_arm._places(batch, worker.message()))) == CHECKED


@pytest.mark.parametrize("lends", [False, True])
def test_where_the_worker_copies_results_they_are_in_the_judges_buffers(lends: bool):
    trial = bound(lends=lends)
    worker: Any = trial.candidate
    of_trial = judged(trial)
    of_trial.delivers = True
    calls = 1 if lends else 8
    for _ in range(3):
        of_trial.gated(calls)
        of_trial.plain(calls)
        Rounds(trial, None, ONE_BY_ONE, judged=False).gated(0)
    assert len(trial.checked) >= 6
    if lends:
        assert worker.said.count("lend") == worker.said.count("take_back") >= 6
    worker.leaves_out = (calls - 1,)
    with pytest.raises(RefusalError):
        of_trial.plain(calls)


@pytest.mark.parametrize("gated", [True, False])
def test_two_arms_are_lent_memory_of_one_arena_in_turn(gated: bool):
    """What one worker was lent is taken back before the other one is lent any."""
    trial = bound(lends=True)
    beside = Known(trial.reference, Worker(trial.arena), trial.arena)
    arms = [judged(trial), Rounds(beside, None, ONE_BY_ONE, judged=False)]
    for of_arm in arms * 3:
        of_arm.delivers = True
        of_arm.gated(1)
        assert trial.arena._lent is None
    (arms[0].gated if gated else arms[0].plain)(1, kill=True)
    assert trial.arena._lent is None
    assert trial.candidate.said[-1].startswith("check"), "the dead are asked for nothing"


# --- plain loops ------------------------------------------------------------------------


def test_a_plain_loop_is_timed_from_the_request_to_the_message(trial: Known, worker: Worker):
    of_trial = judged(trial)
    told = of_trial.plain(8)
    assert (told.total_ns, told.late_ns, told.event_ns, trial.checked) == (4_000_000, 0, 10_000, [])
    assert "expect" not in worker.said, "of results that nobody looks at"
    before = len(worker.said)
    assert of_trial.loop(7, 3) == 4_000_000
    assert worker.order == [0, 1, 2, 0, 1, 2, 0]
    assert worker.said[before:].count("pause") == 1, "it is awake when its loop begins, and stopped after it"
    worker.late = True
    with pytest.raises(RefusalError, match="no answer within 80 s"):
        of_trial.plain(8)


def test_the_time_to_queue_follows_what_a_plain_loop_took(trial: Known, worker: Worker):
    limits = []
    worker.announced = lambda within_s: limits.append(within_s) or worker.message()
    of_trial = judged(trial)
    of_trial.gated(8)
    of_trial.plain(8)
    of_trial.gated(8)
    assert [limits[0], limits[2]] == pytest.approx([0.5, 0.508])


def test_arguments_of_a_checked_call_are_let_go_while_memory_is_lent():
    trial = bound(lends=True)
    batch = Batch(trial, 1, CHECKED, ONE_BY_ONE, gated=True)
    batch.fill()
    (arguments,) = batch.checked.values()
    assert arguments == []
    for step in [*RoundStep][1:-1]:
        batch.enter(step)
    for _, expected in batch.expected():
        assert (expected.arguments, expected.tensors[0].numel()) == ([], SIZE)
