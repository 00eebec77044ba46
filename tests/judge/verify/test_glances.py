"""Work that is left out after a glance at a few values: the varied inputs of one verification show it every time."""

import functools
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from kbench.judge.reference.drawing import Inputs, samples_kept
from kbench.judge.verify.variations import GLANCES, IN_FEW_PLACES, MIXED

ROWS, COLUMNS = 96, 160
RUNS = 20
Function = Callable[[Tensor], Tensor]


def where(sees: Callable[[Tensor], Tensor], short: Function, whole: Function) -> Function:
    """Return a function that leaves work out for the whole input where a glance at it allows that."""
    return lambda x: short(x) if bool(sees(x).all()) else whole(x)


def by_row(sees: Callable[[Tensor], Tensor], short: Function, whole: Function) -> Function:
    """Return a function that decides for each row."""
    return lambda x: torch.where(sees(x)[:, None], short(x), whole(x))


def by_block(sees: Callable[[Tensor], Tensor], short: Function, whole: Function) -> Function:
    """Return a function that decides for each 64 elements."""

    def decide(x: Tensor) -> Tensor:
        blocks = x.reshape(-1, 64)
        return torch.where(sees(blocks)[:, None], short(blocks), whole(blocks)).view_as(x)

    return decide


def identity(x: Tensor) -> Tensor:
    return x


def clamped(x: Tensor) -> Tensor:
    return x.clamp(-2, 2)


def fraction(x: Tensor) -> Tensor:
    return x - x.floor()


def signed(x: Tensor) -> Tensor:
    return x + x.sign()


def positive(part: Tensor) -> Tensor:
    return part >= 0


ATTACKS: dict[str, tuple[Function, Function]] = {
    "first row": (torch.relu, where(lambda x: positive(x[0]), identity, torch.relu)),
    "last row": (torch.relu, where(lambda x: positive(x[-1]), identity, torch.relu)),
    "first column": (torch.relu, where(lambda x: positive(x[:, 0]), identity, torch.relu)),
    "first thousand": (torch.relu, where(lambda x: positive(x.flatten()[:1000]), identity, torch.relu)),
    "every 17th": (torch.relu, where(lambda x: positive(x.flatten()[::17]), identity, torch.relu)),
    "every 8th from the third on": (torch.relu, where(lambda x: positive(x.flatten()[3::8]), identity, torch.relu)),
    "every 16th row": (torch.relu, where(lambda x: positive(x[::16]), identity, torch.relu)),
    "a corner": (torch.relu, where(lambda x: positive(x[:8, :8]), identity, torch.relu)),
    "four corners": (torch.relu, where(lambda x: positive(x[[0, 0, -1, -1], [0, -1, 0, -1]]), identity, torch.relu)),
    "a diagonal": (torch.relu, where(lambda x: positive(x.diagonal()), identity, torch.relu)),
    "the mean": (torch.relu, where(lambda x: x.mean() > 0.25, identity, torch.relu)),
    "means of the rows": (torch.relu, where(lambda x: x.mean(1) > 0.25, identity, torch.relu)),
    "the first of each row": (torch.relu, by_row(lambda x: x[:, 0] >= 0, identity, torch.relu)),
    "the mean of each row": (torch.relu, by_row(lambda x: x.mean(1) > 0, identity, torch.relu)),
    "the first of each block": (torch.relu, by_block(lambda x: x[:, 0] >= 0, identity, torch.relu)),
    "the mean of each block": (torch.relu, by_block(lambda x: x.mean(1) > 0, identity, torch.relu)),
    "a range of samples": (clamped, where(lambda x: x.flatten()[::32].abs() < 1, identity, clamped)),
    "a range of the first row": (fraction, where(lambda x: (x[0] >= 0) & (x[0] < 1), identity, fraction)),
    "the largest of each row's start": (clamped, by_row(lambda x: x[:, :16].abs().amax(1) < 1, identity, clamped)),
    "zeros among samples": (
        signed,
        where(lambda x: x.flatten()[::16] != 0, lambda x: x + torch.copysign(x * 0 + 1, x), signed),
    ),
    "zeros in the first row": (signed, where(lambda x: x[0] != 0, lambda x: x + torch.copysign(x * 0 + 1, x), signed)),
    "random samples": (torch.relu, where(lambda x: positive(x.flatten()[CHOSEN]), identity, torch.relu)),
}
CHOSEN = torch.randperm(ROWS * COLUMNS, generator=torch.Generator().manual_seed(5))[:64]


def rand(seed: int) -> list[Tensor]:
    torch.manual_seed(seed)
    return [torch.rand(ROWS, COLUMNS)]


@functools.cache
def called_on(run: int) -> list[Tensor]:
    """Return inputs of one verification: those at its own shape, and others for a smaller one."""
    inputs = Inputs(SimpleNamespace(inputs=rand))
    calls = enumerate([MIXED, *[IN_FEW_PLACES[0]] * (GLANCES + 2 * GLANCES)])
    return [inputs.draw(100 * run + n, v.transform, v.applies)[0] for n, v in calls]


@pytest.mark.parametrize("name", ATTACKS)
def test_what_a_glance_does_not_see_shows_in_each_verification(name: str) -> None:
    reference, attack = ATTACKS[name]
    (plain,) = rand(1)
    assert torch.equal(attack(plain), reference(plain)), "right on what is drawn"
    missed = [run for run in range(RUNS) if all(is_right(attack, reference, x) for x in called_on(run))]
    assert not missed


def is_right(solution: Function, reference: Function, x: Tensor) -> bool:
    return torch.allclose(solution(x), reference(x), rtol=1e-5, atol=1e-5)


SHORT_CUTS: dict[str, tuple[Function, Callable[[Tensor], Tensor], Function]] = {
    # name: the reference, where work may be left out (element by element), what is left
    "finite": (torch.nan_to_num, torch.isfinite, identity),
    "positive": (torch.relu, lambda x: x >= 0, identity),
    "negative": (torch.abs, lambda x: x <= 0, torch.neg),
    "within the range": (clamped, lambda x: x.abs() <= 2, identity),
    "no zeros": (signed, lambda x: x != 0, lambda x: x + torch.copysign(torch.ones(()), x)),
    "an empty mask": (lambda x: x.masked_fill(x > 4, 0), lambda x: x <= 4, identity),
    "below one": (fraction, lambda x: (x >= 0) & (x < 1), identity),
}
WAYS = {
    "whole": where,
    "rows": lambda may, short, whole: by_row(lambda x: may(x).all(1), short, whole),
    "blocks": lambda may, short, whole: by_block(lambda x: may(x).all(1), short, whole),
}
HONEST: dict[str, tuple[Function, Function]] = {
    f"{name}, {way}": (whole, decide(may, short, whole))
    for name, (whole, may, short) in SHORT_CUTS.items()
    for way, decide in WAYS.items()
}


@pytest.mark.parametrize("name", HONEST)
def test_who_reads_all_values_before_work_is_left_out_is_right_on_each(name: str) -> None:
    reference, honest = HONEST[name]
    assert all(is_right(honest, reference, x) for run in range(3) for x in called_on(run))


def test_few_places_are_few_and_of_every_kind() -> None:
    inputs = Inputs(SimpleNamespace(inputs=rand))
    (x,), (y,) = inputs.draw(1), inputs.changed(inputs.draw(1), IN_FEW_PLACES[0].transform, IN_FEW_PLACES[0].applies)
    changed = y[x != y]
    assert len(changed) == 4
    assert (changed < 0).any() and (changed == 0).any() and (changed > 1).any()  # noqa: PT018
    (z,) = inputs.changed(inputs.draw(1), IN_FEW_PLACES[-1].transform, IN_FEW_PLACES[-1].applies)
    assert (z >= 0).all(), "for a reference of positive values alone"


def test_a_mask_of_one_value_changes_in_few_places_too() -> None:
    few = IN_FEW_PLACES[0]
    inputs = Inputs(SimpleNamespace(inputs=lambda _seed: [torch.ones(ROWS, COLUMNS, dtype=torch.bool)]))
    assert inputs.varies(few.transform, few.applies)
    assert [(~mask).sum() for run in range(RUNS) for mask in inputs.draw(run, few.transform, few.applies)] == [4] * RUNS


GLANCES_AT_A_WEIGHT = {
    "the first element": lambda w: w.flatten()[0],
    "the first and the last row's first": lambda w: w[:: len(w) // 2, 0],
    "both ends": lambda w: w.flatten()[[0, -1]],
    "every 16th part": lambda w: w.flatten()[:: w.numel() // 16],
}


@pytest.mark.parametrize("name", GLANCES_AT_A_WEIGHT)
def test_a_glance_at_a_weight_does_not_show_that_it_changed(name: str) -> None:
    weight = torch.randn(64, 48)
    before = weight.clone()
    with samples_kept([weight]):
        weight.uniform_()
    look = GLANCES_AT_A_WEIGHT[name]
    assert torch.equal(look(weight), look(before))
    assert (weight != before).double().mean() > 0.9


@pytest.mark.parametrize("shape", [(1,), (2,), (8,), (3, 5)])
def test_small_weights_change_too(shape: tuple[int, ...]) -> None:
    weight = torch.randn(shape)
    before = weight.clone()
    with samples_kept([weight]):
        weight.uniform_(2, 3)
    assert (weight != before).double().mean() >= 0.5
