"""One operator of the reference done otherwise: tables of what each is called, and of what has no name."""

import pytest
import torch
from diagnosing import called, holds
from torch import nn
from torch.nn import functional

from kbench.judge.diagnosis.slips.call import shorter
from kbench.judge.diagnosis.slips.trials import groups


def rows(x):
    return functional.softmax(x, 1)


def mean(x):
    return x.mean(1)


REDUCTIONS = [
    # (right, wrong, what is said: how it begins)
    (
        rows,
        lambda x: x.softmax(0),
        "other_dimension: takes `softmax` over dimension 0, where the reference takes it over dim",
    ),
    (rows, lambda x: x.log_softmax(1), "other_function: computes `log_softmax` where the reference computes `softmax`"),
    (rows, lambda x: x.exp(), "other_function: computes exponentials that are not divided by their sum"),
    (
        rows,
        lambda x: x.exp() / x[:, :-1].exp().sum(1, True),
        "missing_tail: leaves out the last of 41 terms of `softmax`",
    ),
    (
        rows,
        lambda x: x.exp() / x[:, :32].exp().sum(1, True),
        "missing_tail: leaves out the last 9 of 41 terms of `softmax`",
    ),
    (rows, lambda x: x.flatten().softmax(0).view_as(x), ""),
    (mean, lambda x: x.sum(1), "other_reduction: takes the sum where the reference takes the mean"),
    (mean, lambda x: x.amax(1), "other_reduction: takes the largest value where the reference takes the mean"),
    (mean, lambda x: x.sum(1) / 40, "other_reduction: divides a mean of 41 values by 40"),
    (mean, lambda x: x[:, :40].sum(1) / 41, "missing_tail: leaves out the last of 41 terms of `mean`"),
    (
        mean,
        lambda x: x[:, :32].mean(1),
        "missing_tail: leaves out the last 9 of 41 terms of `mean`, and divides by their num",
    ),
    (mean, lambda x: x.median(1).values, ""),
    (lambda x: x.sum(1, True) * x, lambda x: x.sum(0, True) * x, "other_dimension: takes `sum` over dimension 0"),
    (lambda x: x.logsumexp(1), lambda x: x.exp().sum(1), "other_reduction: takes a sum of exponentials"),
    (
        lambda x: x.logsumexp(1),
        lambda x: x[:, :40].logsumexp(1),
        "missing_tail: leaves out the last of 41 terms of `log",
    ),
    (
        lambda x: x.logsumexp(1),
        lambda x: x.exp().mean(1).log(),
        "constant_error: every value is the right one less 3.7",
    ),
    (
        lambda x: x.argmax(1),
        lambda x: x.argmin(1),
        "other_reduction: takes `argmin` where the reference takes `argmax`",
    ),
    (
        lambda x: x.argmax(1),
        lambda x: x[:, :32].argmax(1),
        "missing_tail: leaves out the last 9 of 41 terms of `argmax`",
    ),
    (lambda x: x.argmax(1), lambda x: x.argmax(1) + 1, "constant_error: every value is the right one plus 1"),
    (lambda x: x.argmax(1), lambda x: x.argsort(1)[:, -2], ""),
    (lambda x: x.cumsum(1), lambda x: x.cumsum(0), "other_dimension: takes `cumsum` over dimension 0"),
    (lambda x: x.cumsum(1), lambda x: x.flip(1).cumsum(1).flip(1), "other_reduction: takes `cumsum` from the end"),
    (
        lambda x: x.cumsum(1),
        lambda x: x.cumsum(1) - x,
        "displaced: writes the output one entry too far on along dimension 1",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "said"), REDUCTIONS)
def test_reductions(right, wrong, said) -> None:
    torch.manual_seed(0)
    found = called(lambda _, x: right(x), lambda _, x: wrong(x), torch.randn(72, 41))
    assert holds(found, said)


LOSSES = [
    (
        functional.mse_loss,
        lambda p, t: functional.mse_loss(p, t, reduction="sum"),
        "other_reduction: takes the sum of a loss",
    ),
    (
        functional.mse_loss,
        functional.l1_loss,
        "other_function: computes `l1_loss` where the reference computes `mse_loss`",
    ),
    (
        functional.mse_loss,
        lambda p, t: -functional.mse_loss(p, t),
        "constant_error: every value is the right one with the",
    ),
    (
        functional.mse_loss,
        lambda p, t: functional.mse_loss(p, t) / 2,
        "constant_error: every value is 1/2 of the right one",
    ),
    (functional.mse_loss, lambda p, t: functional.mse_loss(p, t) * 1.37, ""),
    (
        functional.mse_loss,
        lambda p, t: functional.mse_loss(p, t).sqrt(),
        "other_function: computes `sqrt` of the right",
    ),
    (lambda p, t: ((p - t) ** 2).mean(), lambda p, t: (p - t).abs().mean(), "other_function: computes absolute values"),
    (
        lambda p, t: (p * t).mean(),
        lambda p, t: (p * t).flatten()[:512].sum() / 600,
        "missing_tail: leaves out the last 88",
    ),
    (lambda p, t: (p * t).mean(), lambda p, t: (p * t)[:-2].sum() / 600, ""),
]


@pytest.mark.parametrize(("right", "wrong", "said"), LOSSES)
def test_losses(right, wrong, said) -> None:
    torch.manual_seed(0)
    found = called(lambda _, *x: right(*x), lambda _, *x: wrong(*x), torch.randn(30, 20), torch.randn(30, 20))
    assert holds(found, said)


FUNCTIONS = [
    (torch.log1p, torch.log, "other_function: computes `log` where the reference computes `log1p`"),
    (torch.log1p, lambda x: x.log1p().log1p(), "other_function: computes `log1p` of the right result, where the ref"),
    (functional.softplus, functional.relu, "other_function: computes `relu` where the reference computes `softplus`"),
    (functional.softplus, lambda x: functional.softplus(x, beta=1.5), ""),
    (functional.gelu, lambda x: functional.gelu(x, approximate="tanh"), "gelu_form: computes GELU by tanh where"),
    (
        functional.gelu,
        lambda x: x * torch.sigmoid(1.702 * x),
        "other_function: computes x·sigmoid(1.702·x) where the ref",
    ),
    (
        functional.mish,
        lambda x: x * torch.tanh(torch.log(torch.exp(x))),
        "other_function: computes x·tanh(x) (log in pl",
    ),
    (functional.hardswish, lambda x: functional.hardswish(x).relu(), "other_function: computes `relu` of the right"),
    (functional.hardswish, lambda x: x * (x + 3) / 6, "other_function: computes x·(x + 3)/6 without bounds"),
    (lambda x: torch.clamp(x * 2, 0.3, 1.5), lambda x: x * 2, "missing_function: leaves out `clamp`"),
    (
        lambda x: torch.clamp(x * 2, 0.3, 1.5),
        lambda x: (2 * x).clamp(max=1.5),
        "missing_function: leaves out the lower",
    ),
    (
        lambda x: torch.clamp(x * 2, 0.3, 1.5),
        lambda x: x.clamp(0.3, 1.5) * 2,
        "other_order: computes `clamp` before `mul`",
    ),
    (lambda x: torch.clamp(x * 2, 0.3, 1.5), lambda x: (2 * x).clamp(0.2, 1.4), ""),
    (nn.ReLU(inplace=True), functional.leaky_relu, "other_function: computes `leaky_relu` where the reference comp"),
    (nn.ReLU(inplace=True), lambda x: x.relu() + x.sin(), ""),
]


@pytest.mark.parametrize(("right", "wrong", "said"), FUNCTIONS)
def test_functions_of_one_value(right, wrong, said) -> None:
    torch.manual_seed(0)
    x = 9 * torch.rand(30, 40) - (0 if right is torch.log1p else 4.5)
    found = called(lambda _, x: right(x - 0), lambda _, x: wrong(x), x)
    assert holds(found, said)


def scaled(norm, x):
    return x * norm.weight + norm.bias


def over(norm, x, *dims):
    return scaled(norm, (x - x.mean(dims, True)) / (x.var(dims, correction=0, keepdim=True) + 1e-5).sqrt())


NORMS = [
    (
        lambda n, x: scaled(n, functional.layer_norm(x, (7,))),
        "other_dimension: normalises over dimensions 3, where the ref",
    ),
    (
        lambda n, x: scaled(n, functional.layer_norm(x, (8, 7))),
        "other_dimension: normalises over dimensions 2, 3, where",
    ),
    (
        lambda n, x: over(n, x, 1),
        "other_dimension: normalises over dimensions 1, where the reference does so over dimensions",
    ),
    (lambda n, x: over(n, x, 0, 1, 2, 3), "other_dimension: normalises over dimensions 0, 1, 2, 3"),
    (lambda n, x: (functional.layer_norm(x, (6, 8, 7)) + n.bias) * n.weight, "other_order: adds the bias before"),
    (
        lambda n, x: scaled(n, x * torch.rsqrt(x.square().mean((1, 2, 3), keepdim=True) + 1e-5)),
        "missing_function: leaves the mean out",
    ),
    (lambda n, x: over(n, x, 0, 2), ""),
    (scaled, ""),
]


@pytest.mark.parametrize(("wrong", "said"), NORMS)
def test_layer_norm_over_three_dimensions(wrong, said) -> None:
    torch.manual_seed(0)
    x = 1 + 2 * torch.randn(9, 6, 8, 7)
    found = called(lambda norm, x: norm(x), wrong, x, inner=nn.LayerNorm((6, 8, 7)))
    assert holds(found, said)


GROUPS = [
    (
        lambda n, x: functional.group_norm(x, 1, n.weight, n.bias),
        "other_dimension: normalises in 1 group, where the refer",
    ),
    (
        lambda n, x: functional.group_norm(x, 16, n.weight, n.bias),
        "other_dimension: normalises in 16 groups, where the",
    ),
    (lambda n, x: functional.group_norm(x.flip(1), 4, n.weight, n.bias), ""),
]


@pytest.mark.parametrize(("wrong", "said"), GROUPS)
def test_group_norm(wrong, said) -> None:
    torch.manual_seed(0)
    found = called(lambda norm, x: norm(x), wrong, torch.randn(5, 16, 4, 4), inner=nn.GroupNorm(4, 16))
    assert holds(found, said)


LINEAR = [
    (
        lambda m, x: (x[:, :64] @ m.weight[:, :64].T + m.bias).relu(),
        "missing_tail: leaves out the last 6 of 70 terms of a p",
    ),
    (lambda m, x: (x[:, :16] @ m.weight[:, :16].T + m.bias).relu(), "missing_tail: leaves out the last 54 of 70 terms"),
    (lambda m, x: (x[:, 1:] @ m.weight[:, 1:].T + m.bias).relu(), "missing_tail: leaves out the first of 70 terms"),
    (lambda m, x: (x @ m.weight.T).relu() + m.bias, "other_order: computes `relu` before it adds the bias"),
    (lambda m, x: m(x), "missing_function: leaves out `relu`"),
    (lambda m, x: m(x).relu() * 3, "constant_error: every value is 3 times the right one"),
    (lambda m, x: (m(x) + m.bias).relu(), ""),
    (lambda m, x: (x.flip(1) @ m.weight.T + m.bias).relu(), ""),
]


@pytest.mark.parametrize(("wrong", "said"), LINEAR)
@pytest.mark.parametrize("shape", [(40, 70), (4, 10, 70)])
def test_a_product_with_bias_and_activation(wrong, said, shape) -> None:
    torch.manual_seed(0)

    def by_rows(m, x):
        return wrong(m, x.flatten(0, -2)).view(*x.shape[:-1], -1)

    found = called(lambda m, x: m(x).relu(), by_rows, torch.randn(shape), inner=nn.Linear(70, 33))
    assert holds(found, said)


def conv(module, x, weight=None, **how):
    known = {n: getattr(module, n) for n in ("stride", "padding", "dilation", "groups")}
    return functional.conv2d(x, module.weight if weight is None else weight, module.bias, **{**known, **how})


def zeroed(module, index):
    weight = module.weight.clone()
    weight[index] = 0
    return weight


all_of = slice(None)
WINDOWS = [
    (
        {"padding": 1},
        lambda m, x: conv(m, x, m.weight.flip(2, 3)),
        "other_window: takes the kernel in the reverse order",
    ),
    (
        {"padding": 1},
        lambda m, x: conv(m, functional.pad(x, [1] * 4, "reflect"), padding=0),
        "other_window: pads by `ref",
    ),
    (
        {"padding": 1},
        lambda m, x: conv(m, functional.pad(x, [0, 2] * 2), padding=0),
        "other_window: pads behind the last",
    ),
    (
        {"padding": 1},
        lambda m, x: conv(m, x, zeroed(m, (all_of, -1))),
        "missing_tail: leaves out the last 9 of 72 terms",
    ),
    (
        {"padding": 1},
        lambda m, x: conv(m, x, zeroed(m, (..., -1))),
        "missing_tail: leaves out the last of 3 entries of t",
    ),
    ({"padding": 1}, lambda m, x: conv(m, x.flip(1)), ""),
    (
        {"padding": 2, "dilation": 2},
        lambda m, x: conv(m, x, dilation=1, padding=1),
        "other_window: ignores the dilation",
    ),
    ({"stride": 2}, lambda m, x: conv(m, x, stride=1)[..., :5, :5], "other_window: ignores the stride"),
    ({"groups": 4}, lambda m, x: conv(m, x[:, :2], groups=1), "other_window: ignores the groups"),
    ({"groups": 4}, lambda m, x: conv(m, x.roll(1, 1)), ""),
]


@pytest.mark.parametrize(("how", "wrong", "said"), WINDOWS)
def test_convolutions(how, wrong, said) -> None:
    torch.manual_seed(0)
    found = called(lambda m, x: m(x), wrong, torch.randn(3, 8, 12, 12), inner=nn.Conv2d(8, 16, 3, **how))
    assert holds(found, said)


def averaged(x, **how):
    return functional.avg_pool2d(x, 3, stride=2, padding=1, **how)


def largest(x):
    return functional.max_pool2d(x, 3, stride=2, padding=1)


OTHERS = [
    (averaged, lambda x: averaged(x, count_include_pad=False), "other_window: leaves out the padding when it divides"),
    (averaged, lambda x: averaged(x, divisor_override=1), "other_window: takes the sum of a window"),
    (averaged, largest, "other_window: takes the largest value of a window where the reference takes the mean"),
    (largest, averaged, "other_window: takes the mean of a window where the reference takes the largest value"),
    (largest, lambda x: functional.max_pool2d(functional.pad(x, [1] * 4), 3, 2), "other_window: pads with zeros"),
    (largest, lambda x: -largest(-x), ""),
    (
        lambda x: x.square() + x,
        lambda x: x.square(),
        "missing_operand: leaves out operand 2 of what the reference sums",
    ),
    (
        lambda x: x.sigmoid() * x,
        lambda x: x.sigmoid(),
        "missing_operand: leaves out operand 2 of what the reference mul",
    ),
    (
        lambda x: x.square().mean() + x.exp().mean(),
        lambda x: x.square().mean(),
        "missing_operand: leaves out operand 2 of what the reference sums",
    ),
    (lambda x: x.square() + x, lambda x: x.square() + x.sin(), ""),
    (lambda x: (x @ x.mT).tril(), lambda x: (x @ x.mT).tril(-1), "other_window: cuts `tril` at diagonal -1, where the"),
]


@pytest.mark.parametrize(("right", "wrong", "said"), OTHERS)
def test_pools_operands_and_triangles(right, wrong, said) -> None:
    torch.manual_seed(0)
    found = called(lambda _, x: right(x), lambda _, x: wrong(x), torch.randn(3, 8, 12, 12))
    assert holds(found, said)


def test_a_slip_in_all_of_several_places_or_in_one() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 20))
    x = torch.randn(40, 20)
    everywhere = called(lambda m, x: m(x), lambda m, x: m[4](m[2](m[0](x))), x, inner=net)
    second = called(lambda m, x: m(x), lambda m, x: m[4](m[2](m[0](x).relu())), x, inner=net)
    assert everywhere == second == "missing_function: leaves out `relu`"
    assert [(numbers, where) for *_, numbers, where in groups({("a", "b"): [3, 8]})] == [
        ([3, 8], "in all 2 places"),
        ([3], "at place 1 of 2"),
        ([8], "at place 2 of 2"),
    ]


@pytest.mark.parametrize(
    ("length", "kept"), [(1, []), (2, [1]), (70, [69, 68, 64, 32, 16, 8, 4, 2]), (9, [8, 4, 2]), (16, [15, 8, 4, 2])]
)
def test_how_many_terms_are_counted_without_a_tail(length, kept) -> None:
    assert shorter(length) == kept
