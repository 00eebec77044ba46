"""What the judge knows of a wrong answer, put together for a diagnosis; here the worker is asked once more."""

import contextlib
from collections.abc import Sequence

from torch import Tensor

from kbench.core.diagnosis import Diagnosis
from kbench.devices.backend import backend
from kbench.devices.poison import is_poison
from kbench.judge.diagnosis import faults
from kbench.judge.diagnosis.search import MOST_ELEMENTS, WrongAnswer, diagnose
from kbench.judge.exchange import Tally, Trial, secret_seed
from kbench.judge.reference.expected import Expected
from kbench.judge.refusal import RefusalError

ASKING_S = 10.0
"""Time limit for all further questions to a worker (chosen): one that hangs must cost no more than a call."""


def explain(trial: Trial, outputs: list[Tensor], expected: Expected, *, plain: bool = True) -> Diagnosis | None:
    """Return why outputs are wrong, or None; it never raises. `plain`: inputs are as the problem draws them."""
    try:
        with trial.candidate.within(ASKING_S):
            wrong = _wrong(trial, outputs, expected, plain=plain)
            return _unwritten(trial, wrong, expected) or diagnose(wrong)
    except Exception:  # noqa: BLE001 - whatever fails here, the values are wrong and the refusal says so
        return None


def _unwritten(trial: Trial, wrong: WrongAnswer, expected: Expected) -> Diagnosis | None:
    """Call again in memory that is filled, unless poison was found already; return what is never written."""
    able = backend(trial.reference.device).fills_memory and not trial.candidate.has_ended and not trial.arena.lends
    if not able or _is_large(trial, wrong.got) or any(bool(is_poison(t).any()) for t in wrong.got):
        return None
    with contextlib.suppress(RefusalError):
        reply = trial.call([expected], filled=True)
        return next(filter(None, map(faults.unwritten, trial.results(reply.slots[0])[: len(wrong.got)])), None)
    return None


def _is_large(trial: Trial, outputs: Sequence[Tensor]) -> bool:
    return sum(t.numel() for t in outputs) > MOST_ELEMENTS[trial.reference.device]


def _wrong(trial: Trial, outputs: list[Tensor], expected: Expected, *, plain: bool) -> WrongAnswer:
    want = expected.tensors
    got = outputs[: len(want)]
    if not _is_large(trial, got):
        got = [t.clone() for t in got]  # calling once more overwrites them
    return WrongAnswer(
        got=got,
        want=want,
        tolerances=[trial.reference.tolerance(t) for t in want],
        arguments=expected.recalled(),
        model=trial.reference.model,
        constructed=lambda: _constructed(trial),
        confirm=lambda: _is_right_as_constructed(trial),
        # Where outputs hardly depend on the inputs, every answer is an earlier one as well.
        earlier=[] if trial.reference.repeats else list(trial.earlier),
        held=lambda: _held(trial),
        switched=lambda: _switched(trial),
        plain=plain,
    )


def _constructed(trial: Trial) -> dict[str, Tensor]:
    """Return the weights that both were constructed with, where they have changed since."""
    if not trial.candidate.follows or not trial.candidate.matches or trial.reference.keeps_weights:
        return {}
    with trial.reference.as_constructed():
        return trial.reference.small_state()


def _held(trial: Trial) -> dict[str, Tensor]:
    """Return what the worker has now of small parameters and buffers; its calls may have changed the statistics."""
    if trial.candidate.has_ended or not trial.reference.small_state():
        return {}
    return {name: tensor.clone() for name, tensor in trial.candidate.held_weights(trial.reference).items()}


def _is_right_as_constructed(trial: Trial) -> bool | None:
    """Call the solution on fresh inputs with these weights; return whether it is right, None if it cannot be called."""
    if trial.candidate.has_ended:
        return None
    held, trial.tally = trial.tally, Tally()
    try:
        try:
            with trial.reference.as_constructed():
                trial.candidate.push_weights(trial.reference)
                expected = trial.reference.expect(trial.arguments(secret_seed()))
                reply = trial.call([expected])
                return trial.compare(trial.results(reply.slots[0]), expected, None)[0].right
        finally:
            trial.candidate.push_weights(trial.reference)
    except RefusalError:
        return None
    finally:
        trial.tally = held


def _switched(trial: Trial) -> list[str]:
    with contextlib.suppress(RefusalError):
        return [] if trial.candidate.has_ended else trial.candidate.switches()
    return []
