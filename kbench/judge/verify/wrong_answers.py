"""Facts about a wrong answer that decide: memory that was never written, or an earlier answer."""

import contextlib
import math
from collections.abc import Sequence

from torch import Tensor

from kbench.core.diagnosis import UNWRITTEN, Diagnosis
from kbench.devices.backend import backend
from kbench.devices.poison import is_poison
from kbench.judge import why
from kbench.judge.exchange import Trial, secret_seed
from kbench.judge.reference.expected import Expected
from kbench.judge.refusal import RefusalError
from kbench.judge.tally import Tally

ASKING_TIMEOUT_S = 10.0
"""Chosen. Time limit for all further requests to a worker."""
MAX_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 29}
"""Largest number of elements of outputs, arguments and state to compute the reference again: 2 GB on a GPU."""
MIN_MEDIAN_FACTOR = 2.0
"""Least factor between the error that the median everywhere leaves and the error that an earlier answer leaves."""


def explain(trial: Trial, outputs: list[Tensor], expected: Expected, *, plain: bool = True) -> Diagnosis | None:
    """Return a diagnosis of wrong outputs, or None; never raises. `plain`: the problem drew the inputs."""
    if sum(t.numel() for t in expected.tensors) > MAX_ELEMENTS[trial.reference.device]:
        return None
    try:
        with trial.candidate.within(ASKING_TIMEOUT_S):
            answer = _answer(trial, outputs, expected, plain=plain)
            # If outputs do not depend on the inputs, every answer is an earlier one as well.
            earlier = [] if trial.reference.repeats else list(trial.earlier)
            return _unwritten(trial, answer, expected) or earlier_answer(answer, earlier) or why.explain(answer)
    except Exception:  # noqa: BLE001 - the values are wrong, whatever fails here
        return None


def _answer(trial: Trial, outputs: list[Tensor], expected: Expected, *, plain: bool) -> why.WrongAnswer:
    want, reference = expected.tensors, trial.reference
    got = [t.clone() for t in outputs[: len(want)]]  # another call overwrites them
    arguments = expected.recalled()
    tensors = [*got, *(a for a in arguments if isinstance(a, Tensor)), *(t for _, t in reference.state())]
    fits = sum(t.numel() for t in tensors) <= MAX_ELEMENTS[reference.device]
    return why.WrongAnswer(
        got=got,
        want=want,
        tolerances=[reference.tolerance(t) for t in want],
        arguments=arguments,
        model=reference.model if fits else None,
        constructed=lambda: _constructed(trial),
        confirm=lambda: _is_right_as_constructed(trial),
        held=lambda: _held(trial),
        plain=plain,
    )


def _unwritten(trial: Trial, answer: why.WrongAnswer, expected: Expected) -> Diagnosis | None:
    """Return the diagnosis of unwritten elements; call again in filled memory, unless poison was found already."""
    got = answer.got
    able = backend(trial.reference.device).fills_memory and not trial.candidate.has_ended and not trial.arena.lends
    if able and not any(bool(is_poison(t).any()) for t in got):
        with contextlib.suppress(RefusalError):
            reply = trial.call([expected], filled=True)
            got = trial.results(reply.slots[0])[: len(got)]
    return next(filter(None, map(unwritten, got)), None)


def unwritten(got: Tensor) -> Diagnosis | None:
    """Name the region of an output that still holds the poison that kbench filled it with."""
    bad = is_poison(got)
    count, total, region = int(bad.sum().item()), bad.numel(), why.region_of(bad)
    if not count or (count < total and not region):
        return None
    sentence = f"never writes {region}" if region else "writes nothing of the output"
    evidence = f"{count:,} of {total:,} elements hold kbench's filling"
    return Diagnosis(code=UNWRITTEN, sentence=sentence, evidence=evidence)


def earlier_answer(answer: why.WrongAnswer, earlier: Sequence[Sequence[Tensor]]) -> Diagnosis | None:
    """Return the diagnosis if wrong outputs are a right answer to one of the `earlier` calls, oldest first; or None."""
    wrong = answer.wrong
    # A mean of many terms is nearly equal in every call, and so are zeros.
    if any(why.is_one_value(answer.got[n]) or answer.got[n].numel() < why.MIN_ELEMENTS for n in wrong):
        return None
    for back, outputs in enumerate(reversed(earlier), start=1):
        if wrong and len(outputs) > wrong[-1] and all(_is_earlier(answer, n, outputs[n]) for n in wrong):
            when, calls = ("the call before", "call") if back == 1 else ("an earlier call", "calls")
            evidence = f"equal to the right answer {back} verified {calls} before, within the tolerance"
            return Diagnosis(code="stale_output", sentence=f"returns the answer to {when}", evidence=evidence)
    return None


def _is_earlier(answer: why.WrongAnswer, place: int, other: Tensor) -> bool:
    """Return whether an output equals another answer, and is nearer to it than to its median everywhere."""
    got, want = answer.got[place], answer.want[place]
    left = why.unexplained(got, want, other, answer.tolerances[place])
    values = why.flat(other)
    median = values[values.isfinite()].median().to(other.dtype).expand(other.shape)
    return left < math.inf and MIN_MEDIAN_FACTOR * left < why.rest(got, want, median)


def _constructed(trial: Trial) -> dict[str, Tensor]:
    """Return the weights of construction, if they have changed since; else nothing."""
    if not trial.candidate.follows or not trial.candidate.matches or trial.reference.keeps_weights:
        return {}
    with trial.reference.as_constructed():
        return trial.reference.small_state()


def _held(trial: Trial) -> dict[str, Tensor]:
    """Return the worker's present parameters and buffers, if they are small; its calls may have changed statistics."""
    if trial.candidate.has_ended or not trial.reference.small_state():
        return {}
    return {name: tensor.clone() for name, tensor in trial.candidate.held_weights(trial.reference).items()}


def _is_right_as_constructed(trial: Trial) -> bool | None:
    """Call the solution with the weights of construction; return whether it is right, None if it cannot be called."""
    if trial.candidate.has_ended:
        return None
    tally, trial.tally = trial.tally, Tally()
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
        trial.tally = tally
