"""Why an answer is wrong: a table of mistakes and what is said of each, and of what nothing is said."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from kbench.core.explain import explain as explanation
from kbench.core.levels import PROPERTIES, TEXTS
from kbench.judge import alternatives, why
from kbench.numerics import elements
from kbench.numerics.elements import Tolerance

FP32 = elements.tolerance_for(torch.float32)
TIGHT = Tolerance(rtol=1e-5, atol=1e-5)


def to_fp16(x: torch.Tensor) -> torch.Tensor:
    return x.half().float()


def to_bf16(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().float()


def to_tf32(x: torch.Tensor) -> torch.Tensor:
    """Cut off what TF32 lacks, as a tensor core does."""
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def said(got, want, **more) -> str:
    """Return what is said of one wrong output, as `code: sentence`; empty where nothing is."""
    with torch.no_grad():
        found = explained([got], [want], **more)
    return f"{found.code}: {found.sentence}" if found is not None else ""


def explained(got, want, *, model=None, arguments=(), constructed=None, plain=True):
    """Return the diagnosis of wrong outputs."""
    tolerances = [elements.tolerance_for(t.dtype) for t in want]
    again = (lambda: alternatives.Recomputing(model, arguments, constructed or {})) if model else lambda: None
    answer = why.WrongAnswer(got=got, want=want, tolerances=tolerances, model=again)
    found = why.alternative(answer, budget_s=20.0)
    return found or (why.partial_blocks(answer) if plain else None)


class Layer(nn.Module):
    """A product, GELU and an affine of two parameters that are no vectors of ones."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(24, 24)
        self.scale = nn.Parameter(torch.rand(24) + 0.5)

    def forward(self, x):
        return functional.gelu(self.linear(x)) * self.scale


def layer(m, x, to=lambda t: t, weight=None, scale=None, form="none"):
    weight = m.linear.weight if weight is None else weight
    y = functional.gelu(functional.linear(to(x), to(weight), m.linear.bias), approximate=form)
    return y * (m.scale if scale is None else scale)


MISTAKES = [
    (lambda m, x: layer(m, x, form="tanh"), "gelu_form: computes GELU by tanh where the reference has erf"),
    (lambda m, x: layer(m, x, to_tf32), "tf32: multiplies in TF32"),
    (lambda m, x: layer(m, x, alternatives.to_tf32), "tf32: multiplies in TF32, or in fp16, which has as many bits"),
    (lambda m, x: layer(m, x, to_bf16), "bf16: computes in bf16, or stores values in it"),
    (lambda m, x: to_fp16(layer(m, x)), "fp16: computes in fp16, or stores values in it"),
    (lambda m, x: to_bf16(layer(m, to_bf16(x))), ""),
    (lambda m, x: layer(m, x, scale=1.0), "missing_scale: leaves out `scale`"),
    (lambda m, x: functional.gelu(x @ m.linear.weight.T) * m.scale, "missing_bias: leaves out `linear.bias`"),
    (lambda m, x: layer(m, x, weight=m.linear.weight.T), "transposed: takes `linear.weight` transposed"),
    (
        lambda m, x: layer(m, x).T.reshape(96, 24),
        "transposed: writes the output with its dimensions in the order 1, 0",
    ),
    (lambda m, x: layer(m, x) + 1e-3 * x.sin(), ""),
    (lambda m, x: 2 * layer(m, x), ""),
    (lambda m, x: layer(m, x, scale=1.5), ""),
    (lambda m, x: functional.relu(m.linear(x)) * m.scale, ""),
    (lambda m, x: torch.zeros_like(x), ""),
    (lambda m, x: torch.full_like(x, math.nan), ""),
]


@pytest.mark.parametrize(("solution", "sentence"), MISTAKES)
def test_a_mistake_has_a_name_or_none(solution, sentence) -> None:
    torch.manual_seed(0)
    model, x = Layer(), torch.randn(96, 24)
    with torch.no_grad():
        got, want = solution(model, x), model(x)
    found = said(got, want, model=model, arguments=[x])
    assert found.startswith(sentence)
    assert bool(found) == bool(sentence)


LAYOUTS = [
    (lambda x: x.relu().permute(0, 2, 3, 1).reshape(x.shape), "dimensions in the order 0, 2, 3, 1"),
    (lambda x: x.relu().transpose(1, 2).reshape(x.shape), "dimensions in the order 0, 2, 1, 3"),
    (lambda x: x.relu().permute(0, 3, 1, 2).reshape(x.shape), "dimensions in the order 0, 3, 1, 2"),
    (lambda x: x.relu().flip(1), ""),
    (lambda x: x.relu().transpose(1, 2).reshape(x.shape) + 0.1, ""),
]


@pytest.mark.parametrize(("solution", "words"), LAYOUTS)
def test_an_output_in_another_order_of_dimensions(solution, words) -> None:
    x = torch.randn(2, 3, 5, 4)
    found = said(solution(x), x.relu())
    assert found == (f"transposed: writes the output with its {words}" if words else "")


@pytest.mark.parametrize("lay_out", [lambda x: x.to(memory_format=torch.channels_last), lambda x: x[:, :, ::2]])
def test_inputs_that_are_read_as_if_they_were_contiguous(lay_out) -> None:
    model, x = nn.Conv2d(3, 4, 3), lay_out(torch.randn(2, 3, 8, 6))
    with torch.no_grad():
        read = x.as_strided(x.shape, x.contiguous().stride())
        assert said(model(read), model(x), model=model, arguments=[x]).startswith("layout: reads its inputs as if")
        assert said(model(x) + 0.1 * torch.randn(2, 4, *model(x).shape[2:]), model(x), model=model, arguments=[x]) == ""


def test_an_input_whose_memory_is_smaller_than_its_shape_hides_no_later_row() -> None:
    model, x = nn.Linear(24, 24), torch.randn(1, 24).expand(24, 24)
    with torch.no_grad():
        got = functional.linear(x, model.weight.T, model.bias)
        assert said(got, model(x), model=model, arguments=[x]) == "transposed: takes `weight` transposed"


class Scaled(nn.Module):
    """A product, a scale and a norm, as published 2/39."""

    def __init__(self) -> None:
        super().__init__()
        self.gemm, self.scale, self.bn = nn.Linear(8, 8), nn.Parameter(torch.randn(8)), nn.BatchNorm1d(8)

    def forward(self, x):
        return self.bn(self.gemm(x) * self.scale)


@pytest.mark.parametrize(
    ("model", "kept", "words"),
    [
        (nn.Linear(8, 8), ["weight", "bias"], "with all weights as before"),
        (
            nn.Sequential(*(nn.Linear(8, 8) for _ in "12345")),
            [f"{n}.weight" for n in range(5)],
            " and 1 more as before",
        ),
        (Scaled(), ["scale", "gemm.weight", "gemm.bias"], "`scale`, `gemm.weight` and `gemm.bias` as before"),
    ],
)
def test_weights_that_are_kept_are_named(model, kept, words) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 8)
    old = {name: torch.rand_like(t) for name, t in (*model.named_parameters(), *model.named_buffers()) if t.dim()}
    with torch.no_grad():
        want, got = (
            torch.func.functional_call(model.eval(), state, (x,)) for state in ({}, {name: old[name] for name in kept})
        )
    found = explained([got], [want], model=model, arguments=[x], constructed=old)
    assert found.code == "frozen_weights"
    assert words in found.evidence


@pytest.mark.parametrize(("first", "words"), [(1.0, ", or keeps the values of construction"), (2.0, "")])
def test_what_had_no_effect_at_first_may_be_kept_from_there(first, words) -> None:
    model, x = nn.BatchNorm1d(8).eval(), torch.randn(64, 8)
    model.running_var.uniform_(0.5, 2)
    old = {"running_var": torch.full((8,), first), "weight": torch.ones(8)}
    with torch.no_grad():
        want, got = model(x), torch.func.functional_call(model, {"running_var": torch.ones(8)}, (x,))
    found = said(got, want, model=model, arguments=[x], constructed=old)
    assert found == f"missing_scale: leaves out `running_var`{words}"


def normed(x, mean, variance):
    return (x - mean[:, None]) / (variance[:, None] + 1e-5).sqrt()


OTHER_MODES = [
    # (whether the reference trains, whether the solution does, what else the solution does, what it is called)
    (True, False, lambda y: y, "other_mode"),
    (False, True, lambda y: y, "other_mode"),
    (True, False, lambda y: y.relu(), ""),
    (False, True, lambda y: y + 0.1, ""),
]


@pytest.mark.parametrize(("trains", "takes_the_batch", "more", "code"), OTHER_MODES)
def test_statistics_of_the_other_mode(trains, takes_the_batch, more, code) -> None:
    torch.manual_seed(0)
    model, x = nn.BatchNorm1d(5), torch.randn(16, 5, 7)
    held = {"running_mean": torch.randn(5), "running_var": 0.5 + torch.rand(5)}
    model.load_state_dict(held, strict=False)
    model.train(trains)
    got = normed(x, x.mean((0, 2)), x.var((0, 2), correction=0)) if takes_the_batch else normed(x, *held.values())
    with torch.no_grad():
        want = model(x)
        model.load_state_dict(held, strict=False)  # as the judge does after each call
        found = said(more(got), want, model=model, arguments=[x])
    assert found.partition(":")[0] == code
    assert model.training is trains


class Broken(nn.Module):
    def forward(self, x):
        raise KeyError(x)


class Uncopied(nn.Module):
    def __deepcopy__(self, _memo):
        raise TypeError("not copied")


@pytest.mark.parametrize("model", [Broken(), Uncopied()])
def test_a_model_that_cannot_be_called_again_hides_no_region(model) -> None:
    want = torch.randn(32, 32)
    assert said(want + torch.randn(32, 32), want, model=model, arguments=[want]) == ""
    got = with_block(want, slice(30, None), lambda block: block + 1)
    assert said(got, want, model=model, arguments=[want]).startswith("partial_block: wrong in the last 2 of 32")


def test_nothing_is_said_when_the_time_is_over() -> None:
    model, x = nn.Linear(20, 20), torch.randn(20, 20)
    with torch.no_grad():
        again = lambda: alternatives.Recomputing(model, [x], {})
        answer = why.WrongAnswer(got=[x @ model.weight.T], want=[model(x)], tolerances=[FP32], model=again)
        assert why.alternative(answer).code == "missing_bias"
        assert why.alternative(answer, budget_s=-1.0) is None


class WithSums(nn.Linear):
    def forward(self, x):
        found = super().forward(x)
        return found, found.sum(1)


def test_all_wrong_outputs_have_one_cause() -> None:
    model, x = WithSums(20, 20), torch.randn(40, 20)
    with torch.no_grad():
        want, got = model(x), x @ model.weight.T
        known = {"want": want, "model": model, "arguments": [x]}
        assert explained([got, got.sum(1)], **known).code == "missing_bias"
        assert explained([got, want[1]], **known).code == "missing_bias"
        assert explained([got, want[1] + torch.rand(40)], **known) is None
        assert explained([*want], **known) is None


def nearly_zeros(at: int, value: float) -> torch.Tensor:
    found = torch.zeros(640)
    found[at] = value
    return found


WANT, ERROR = torch.linspace(-2, 3, 1000), torch.linspace(1, 2, 1000).sin()
LEFT = [
    # (got, want, other, share of the error that is left; infinite: no explanation)
    (WANT + ERROR, WANT, WANT + ERROR, 0.0),
    (WANT + ERROR, WANT, WANT + ERROR + 1e-6, pytest.approx(0.0, abs=1e-5)),
    (WANT + ERROR, WANT, WANT + 1.002 * ERROR, pytest.approx(0.002, rel=1e-2)),
    (WANT + ERROR, WANT, WANT + 1.05 * ERROR, math.inf),
    (WANT + ERROR, WANT, WANT, math.inf),
    (WANT + ERROR, WANT, WANT[:10], math.inf),
    (WANT + ERROR, WANT, torch.full_like(WANT, math.nan), math.inf),
    (WANT, WANT, WANT + 1, math.inf),
    (nearly_zeros(3, 0.04), nearly_zeros(70, 0.96), torch.zeros(640), math.inf),  # published 2/9
    (WANT[:7] + 1, WANT[:7], WANT[:7] + 1, math.inf),
    (WANT[:8] + 1, WANT[:8], WANT[:8] + 1, 0.0),
]


@pytest.mark.parametrize(("got", "want", "other", "left"), LEFT)
def test_what_another_output_leaves_of_an_error(got, want, other, left) -> None:
    assert why.unexplained(got, want, other, TIGHT) == left


def test_a_coarser_arithmetic_may_leave_a_tenth_and_exact_values_nothing() -> None:
    assert why.unexplained(WANT + ERROR, WANT, WANT + 1.3 * ERROR, TIGHT, rounds=True) == pytest.approx(0.3, rel=1e-2)
    assert why.unexplained(WANT + ERROR, WANT, WANT + 1.4 * ERROR, TIGHT, rounds=True) == math.inf
    assert why.unexplained(WANT[:60] + 1, WANT[:60], WANT[:60] + 1, TIGHT, rounds=True) == math.inf
    whole, exact = torch.arange(100), elements.tolerance_for(torch.int64)
    assert why.unexplained(whole + 1, whole, whole + 1, exact) == 0.0
    assert why.unexplained(whole + 1, whole, whole + 1 - (whole == 7).long(), exact) == math.inf


def test_tf32_has_eleven_bits() -> None:
    x = torch.tensor([1 + 2.0**-10, 1 + 2.0**-11 + 2.0**-12, 1 + 2.0**-12, -3.3e38, torch.inf])
    assert alternatives.to_tf32(x).tolist()[:3] == [1 + 2.0**-10, 1 + 2.0**-10, 1]
    assert alternatives.to_tf32(x, half=0).tolist()[:3] == [1 + 2.0**-10, 1, 1]
    assert alternatives.to_tf32(x)[4] == torch.inf


def mask(shape: tuple[int, ...], *indices) -> torch.Tensor:
    found = torch.zeros(shape, dtype=torch.bool)
    for index in indices:
        found[index] = True
    return found


everything = slice(None)
REGIONS = [
    (mask((16, 100), (everything, slice(96, None))), "the last 4 of 100 entries of dimension 1"),
    (mask((16, 100), slice(12, None)), "the last 4 of 16 entries of dimension 0"),
    (mask((16, 100), (everything, 99)), "the last of 100 entries of dimension 1"),
    (mask((16, 100), slice(2, None, 3)), "1 in 3 of 16 entries of dimension 0"),
    (
        mask((16, 100), (slice(8, 12), slice(32, 64))),
        "entries 8 to 11 of 16 of dimension 0 and entries 32 to 63 of 100 of dimension 1",
    ),
    (mask((2, 3, 8, 8), (everything, 1)), "entries 1 to 1 of 3 of dimension 1"),
    (mask((1000,), slice(993, None)), "the last 7 of 1,000 elements"),
    (mask((1000,), slice(64, None)), "the last 936 of 1,000 elements"),
    (mask((1000,), slice(1, None, 4)), "1 in 4 of 1000 entries of dimension 0"),
    (mask((4, 7, 10), *[(n // 7, n % 7) for n in range(4, 28, 5)]), "1 in 5 of 28 rows"),
    (mask((16, 100)), ""),
    (mask((16, 100), everything), ""),
    (mask((16, 100), (3, 17)), ""),
    (mask((16, 100), (3, 17), (9, 90), (12, 5)), ""),
    (~mask((16, 100), (3, 17)), ""),
    (mask((16, 100), 0, 3, 4, 11), ""),
]


@pytest.mark.parametrize(("bad", "words"), REGIONS)
def test_regions_in_words(bad, words) -> None:
    assert why.region_of(bad) == words


def test_what_is_scattered_is_no_region() -> None:
    torch.manual_seed(0)
    for share in (0.001, 0.01, 0.1, 0.5, 0.9, 0.99):
        assert why.region_of(torch.rand(64, 80) < share) == "", share


def with_block(want, index, change):
    got = want.clone()
    got[index] = change(want[index])
    return got


PARTIAL = [
    (lambda w: with_block(w, (everything, slice(48, None)), torch.zeros_like), True),
    (lambda w: with_block(w, slice(30, None), lambda block: block + 1), True),
    (lambda w: with_block(w, slice(0, None, 4), torch.neg), True),
    (lambda w: with_block(w, slice(30, None), lambda block: block * (1 + 1e-4)), False),  # a rounding that shows there
    (lambda w: with_block(w, (3, 5), lambda block: block + 1), False),  # one element is no region
    (lambda w: with_block(w, slice(12, None), torch.zeros_like), True),
    (lambda w: with_block(w, slice(0, 28), torch.neg), False),  # the rest may be right by chance
    (lambda w: w + 1e-3 * torch.randn_like(w), False),
    (lambda w: torch.where(w > 0, w, w * 0.5), False),
    (torch.zeros_like, False),
]


@pytest.mark.parametrize(("make", "is_one"), PARTIAL)
def test_partial_block(make, is_one) -> None:
    torch.manual_seed(0)
    want = torch.randn(32, 56)
    assert (why.partial_block(make(want), want, FP32) is not None) == is_one


def test_regions_are_not_named_on_inputs_that_stand_out_in_one_place() -> None:
    want = torch.randn(32, 32)
    got = with_block(want, slice(30, None), lambda block: block + 1)
    assert said(got, want).startswith("partial_block: ")
    assert said(got, want, plain=False) == ""


@pytest.mark.parametrize("code", list(TEXTS["diagnosis"]))
def test_every_code_is_explained(code) -> None:
    known = explanation(code)
    kind = "property" if code in PROPERTIES else "diagnosis"
    assert (known.kind, known.meaning[-1], known.fix[-1]) == (kind, ".", ".")
