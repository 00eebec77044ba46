"""Explanations of wrong values one by one: tables of what each is, and of what it is not."""

import time

import pytest
import torch
from planted import no_first_block, no_tail, no_third_row, poison
from torch import nn
from torch.nn import functional

from kbench.core import traces
from kbench.core.diagnosis import Diagnosis
from kbench.core.explain import explain
from kbench.core.levels import PROPERTIES, TEXTS
from kbench.judge.diagnosis import faults, likeness, regions
from kbench.judge.diagnosis.rewrites import by_products
from kbench.judge.diagnosis.rounding import cut_to_tf32, to_tf32
from kbench.judge.diagnosis.search import WrongAnswer, diagnose
from kbench.judge.verify.levels import needs_other_shape
from kbench.numerics import elements
from kbench.wire import precision_switches

FP32 = elements.tolerance_for(torch.float32)


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
    (mask((16, 100), slice(2, None, 3)), "every 3rd of 16 entries of dimension 0"),
    (
        mask((16, 100), (slice(8, 12), slice(32, 64))),
        "entries 8 to 11 of 16 of dimension 0 and entries 32 to 63 of 100 of dimension 1",
    ),
    (mask((2, 3, 8, 8), (everything, 1)), "entry 1 of 3 of dimension 1"),
    (mask((1000,), slice(993, None)), "the last 7 of 1,000 elements"),
    (mask((1000,), slice(64, None)), "all but the first 64 of 1,000 elements"),
    (
        ~mask((40, 50), (slice(0, 32), slice(0, 32))),
        "all but the first 32 of 40 entries of dimension 0 and the first 32 of 50 entries of dimension 1",
    ),
    (torch.ones(3, 40, 40, dtype=torch.bool).triu(1), "what is above the diagonal of the last two dimensions"),
    (torch.ones(40, 50, dtype=torch.bool).tril(-1), "what is below the diagonal of the last two dimensions"),
    (torch.ones(3, 40, 40, dtype=torch.bool).triu(), None),
    (
        torch.ones(40, 40, dtype=torch.bool).triu(30),
        "the first 10 of 40 entries of dimension 0 and the last 10 of 40 entries of dimension 1",
    ),
    (mask((4, 7, 10), *[(n // 7, n % 7) for n in range(4, 28, 5)]), "every 5th of 28 rows"),
    (mask((16, 100)), None),
    (mask((16, 100), everything), None),
    (mask((16, 100), (3, 17)), None),
    (mask((16, 100), (3, 17), (9, 90), (12, 5)), None),
    (~mask((16, 100), (3, 17)), None),
    (mask((16, 100), 0, 3, 4, 11), None),
]


@pytest.mark.parametrize(("bad", "words"), REGIONS)
def test_regions_in_words(bad, words) -> None:
    found = regions.region_of(bad)
    assert (found.words if found is not None else None) == words


def test_what_is_scattered_is_no_region() -> None:
    torch.manual_seed(0)
    for share in (0.001, 0.01, 0.1, 0.5, 0.9, 0.99):
        assert regions.region_of(torch.rand(64, 80) < share) is None, share


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32])
def test_what_was_never_written_is_known_by_its_bits(dtype) -> None:
    want = torch.arange(240).view(8, 30).to(dtype)
    assert faults.unwritten(want) is None
    assert faults.unwritten(poison(want)).sentence == "writes nothing of the output"


UNWRITTEN = [
    (no_first_block, "never writes all but the first 64 of 270 elements"),
    (no_tail, "never writes the last 7 of 270 elements"),
    (no_third_row, "never writes every 3rd of 9 entries of dimension 0"),
    (torch.clone, None),
    (torch.zeros_like, None),
    (lambda want: torch.full_like(want, torch.nan), None),
    (lambda want: torch.where(torch.rand(want.shape) < 0.5, want, poison(want)), None),
]


@pytest.mark.parametrize(("make", "sentence"), UNWRITTEN)
def test_unwritten(make, sentence) -> None:
    torch.manual_seed(0)
    found = faults.unwritten(make(torch.randn(9, 30)))
    assert (found.sentence if found is not None else None) == sentence


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
    (lambda w: with_block(w, slice(8, None), lambda block: block + 1), True),
    (lambda w: with_block(w, slice(0, 28), torch.neg), False),  # what is right may be so by chance
    (lambda w: w + 1e-3 * torch.randn_like(w), False),
    (lambda w: torch.where(w > 0, w, w * 0.5), False),
    (torch.zeros_like, False),
]


@pytest.mark.parametrize(("make", "is_one"), PARTIAL)
def test_partial_block(make, is_one) -> None:
    torch.manual_seed(0)
    want = torch.randn(32, 56)
    found = faults.partial_block(make(want), want, FP32)
    assert (found is not None) == is_one


TRANSPOSED = [
    (lambda w: w.transpose(0, 1).reshape(w.shape), "dimensions 0 and 1"),
    (lambda w: w.transpose(1, 2).reshape(w.shape), "dimensions 1 and 2"),
    (lambda w: w.reshape(4, 9, 6).transpose(1, 2), "dimensions 1 and 2"),
    (lambda w: w.flip(1), None),
    (lambda w: w.transpose(1, 2).reshape(w.shape) + 1e-2, None),
    (torch.zeros_like, None),
]


@pytest.mark.parametrize(("make", "words"), TRANSPOSED)
def test_transposed(make, words) -> None:
    torch.manual_seed(0)
    want = torch.randn(4, 6, 9)
    found = faults.transposed(make(want), want, FP32)
    assert (found is not None) == (words is not None)
    assert words is None or words in found.sentence


def test_one_explanation_leaves_nothing_of_an_error_and_another_more_than_all() -> None:
    torch.manual_seed(0)
    want, error = torch.randn(1000), torch.randn(1000)
    got = want + error
    assert likeness.rest(got, want, got) == 0
    assert likeness.rest(got, want, want) == pytest.approx(1)
    assert likeness.rest(got, want, want + torch.randn(1000)) > 1
    assert likeness.rest(got, want, torch.full_like(want, torch.nan)) == float("inf")
    assert likeness.rest(got, want, want[:10]) == float("inf")
    assert likeness.is_same(got, want, got + 1e-6, FP32)
    assert not likeness.is_same(got, want, got + 0.1 * error, FP32)
    assert not likeness.is_same(want, want, want + 1, FP32)


def test_errors_of_one_rounding_are_alike_and_of_two_are_not() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(40, 64), torch.randn(64, 40)
    want = a @ b
    half, brain = a.half().float() @ b.half().float(), a.bfloat16().float() @ b.bfloat16().float()
    assert likeness.rounding_likeness(half, want, half.half().float()) > 0.7
    assert likeness.rounding_likeness(brain, want, half) == 0
    assert likeness.rounding_likeness(want + 1e-2 * torch.randn(40, 40), want, brain) == 0
    assert likeness.rounding_likeness(half[0], want[0], half[0]) == 0, "too few to tell"


STORED = [
    (lambda w: w.bfloat16().float(), torch.bfloat16, True),
    (lambda w: w.half().float(), torch.float16, True),
    (lambda w: w.half().float(), torch.bfloat16, False),
    (lambda w: w, torch.bfloat16, False),
    (torch.zeros_like, torch.bfloat16, False),
    (lambda w: (2 * w).bfloat16().float(), torch.bfloat16, False),
    (torch.round, torch.bfloat16, False),
]


@pytest.mark.parametrize(("make", "dtype", "stored"), STORED)
def test_stored_in_16_bits(make, dtype, stored) -> None:
    torch.manual_seed(0)
    want = torch.randn(40, 40)
    assert likeness.is_stored_as(make(want), want, dtype) is stored
    whole = want.round()
    assert not likeness.is_stored_as(whole + 1, whole, dtype), "so are the reference's"


def test_tf32_has_eleven_bits() -> None:
    x = torch.tensor([1 + 2.0**-10, 1 + 2.0**-11 + 2.0**-12, 1 + 2.0**-12, -3.3e38, torch.inf])
    assert to_tf32(x).tolist()[:3] == [1 + 2.0**-10, 1 + 2.0**-10, 1]
    assert cut_to_tf32(x).tolist()[:3] == [1 + 2.0**-10, 1, 1]
    assert to_tf32(x)[4] == torch.inf


@pytest.mark.parametrize("causal", [False, True])
def test_attention_taken_apart_is_attention(causal) -> None:
    q, k, v = torch.randn(3, 2, 4, 5, 8)
    fused = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    torch.testing.assert_close(by_products(q, k, v, is_causal=causal), fused)
    bias = torch.randn(5, 5)
    masked = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.3)
    torch.testing.assert_close(by_products(q, k, v, bias, scale=0.3), masked)


def wrong(got, want, **more) -> WrongAnswer:
    return WrongAnswer(got=[got], want=[want], tolerances=[elements.tolerance_for(want.dtype)], **more)


def test_a_switch_is_named_where_the_error_is_of_its_size() -> None:
    torch.manual_seed(0)
    want = torch.randn(20, 20)
    switched = ["torch.backends.cuda.matmul.allow_tf32 = True"]
    near, far = want * (1 + 1e-3 * torch.randn(20, 20)), want + torch.randn(20, 20)
    assert diagnose(wrong(near, want, switched=lambda: switched)).code == "precision_switch"
    assert diagnose(wrong(far, want, switched=lambda: switched)) is None
    assert diagnose(wrong(near, want)) is None


def test_a_model_that_raises_or_a_time_that_is_over_ends_in_no_name() -> None:
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError(x)

    want = torch.randn(20, 20)
    got = want + torch.randn(20, 20)
    assert diagnose(wrong(got, want, model=Broken(), arguments=[want])) is None
    model, x = nn.Linear(20, 20), torch.randn(20, 20)
    with torch.no_grad():
        known = {"model": model, "arguments": [x]}
        assert diagnose(wrong(x @ model.weight.T, model(x), **known)).code == "missing_bias"
        assert diagnose(wrong(x @ model.weight.T, model(x), **known), budget_s=-1.0) is None
    assert diagnose(wrong(want, want)) is None


def test_weights_that_a_call_refutes_are_not_named() -> None:
    model = nn.Linear(8, 8)
    x, old = torch.randn(64, 8), {name: torch.randn_like(t) for name, t in model.named_parameters()}
    with torch.no_grad():
        want, got = model(x), torch.func.functional_call(model, old, (x,))
    known = {"model": model, "arguments": [x], "constructed": lambda: old}
    named = "right with the weights it was constructed with, wrong once they change"
    assert diagnose(wrong(got, want, **known)).sentence == named
    assert diagnose(wrong(got, want, confirm=lambda: True, **known)).code == "frozen_weights"
    assert diagnose(wrong(got, want, confirm=lambda: False, **known)) is None


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
        (
            nn.Sequential(*(nn.Linear(8, 8) for _ in "12345")),
            [f"{n}.weight" for n in range(5)],
            " and 1 more as before",
        ),
        (Scaled(), ["scale", "gemm.weight", "gemm.bias"], "`scale`, `gemm.weight`, `gemm.bias` as before"),
    ],
)
def test_weights_that_are_kept_while_others_are_followed_are_named(model, kept, words) -> None:
    x = torch.randn(64, 8)
    old = {name: torch.rand_like(t) for name, t in (*model.named_parameters(), *model.named_buffers()) if t.dim()}
    with torch.no_grad():
        want, got = (
            torch.func.functional_call(model.eval(), state, (x,)) for state in ({}, {name: old[name] for name in kept})
        )
    found = diagnose(wrong(got, want, model=model, arguments=[x], constructed=lambda: old))
    assert found is not None
    assert found.code == "frozen_weights"
    assert words in found.evidence


@pytest.mark.parametrize(("first", "words"), [(1.0, ", or keeps it as it was constructed"), (2.0, "")])
def test_what_had_no_effect_at_first_may_be_kept_from_there(first, words) -> None:
    model, x = nn.BatchNorm1d(8).eval(), torch.randn(64, 8)
    model.running_var.uniform_(0.5, 2)
    old = {"running_var": torch.full((8,), first), "weight": torch.ones(8)}
    with torch.no_grad():
        want, got = model(x), torch.func.functional_call(model, {"running_var": torch.ones(8)}, (x,))
    found = diagnose(wrong(got, want, model=model, arguments=[x], constructed=lambda: old))
    assert (found.code, found.sentence) == ("missing_scale", f"leaves out `running_var`{words}")


class Slow(nn.Module):
    """A chain of functions that takes long."""

    def forward(self, x):
        time.sleep(0.02)
        return functional.gelu(functional.mish(functional.silu(functional.softplus(x))))


def test_a_slow_reference_has_more_time_for_its_slips() -> None:
    x = torch.randn(64, 64)
    want, got = Slow()(x), functional.gelu(functional.mish(functional.silu(functional.softplus(x))), approximate="tanh")
    known = {"model": Slow(), "arguments": [x]}
    assert diagnose(wrong(got, want, **known), budget_s=0.2).code == "gelu_form"


class Masked(nn.Module):
    def __init__(self, fill: float):
        super().__init__()
        self.fill = fill

    def forward(self, x):
        return torch.softmax(x.masked_fill(x.new_ones(x.shape).triu(1) > 0, self.fill), dim=-1)


class Triangle(nn.Module):
    def forward(self, x):
        return torch.triu(x @ x)


MASKS = [
    (Masked(-torch.inf), lambda x: torch.softmax(x, -1), "missing_mask"),
    (Masked(-1e9), lambda x: torch.softmax(x, -1), "missing_mask"),
    (Masked(-1e9), lambda x: torch.softmax(x.tril(), -1), None),
    (Masked(0.0), lambda x: torch.softmax(x * 1.5, -1), None),
    (Triangle(), lambda x: x @ x, "missing_mask"),
    (Triangle(), lambda x: torch.tril(x @ x), None),
]


@pytest.mark.parametrize(("model", "solution", "code"), MASKS)
def test_a_mask_that_is_left_out(model, solution, code) -> None:
    torch.manual_seed(0)
    x = torch.randn(24, 24)
    found = diagnose(wrong(solution(x), model(x), model=model, arguments=[x]))
    assert (found.code if found is not None else None) == code


def normed(x, mean, variance):
    return (x - mean[:, None]) / (variance[:, None] + 1e-5).sqrt()


OTHER_MODES = [
    # (whether the reference trains, whether the solution does, what else the solution does, what it is called)
    (True, False, lambda y: y, "other_mode"),
    (False, True, lambda y: y, "other_mode"),
    (True, False, lambda y: y.relu(), None),
    (False, True, lambda y: y + 0.1, None),
]


@pytest.mark.parametrize(("trains", "takes_the_batch", "more", "code"), OTHER_MODES)
def test_statistics_of_the_other_mode(trains, takes_the_batch, more, code) -> None:
    torch.manual_seed(0)
    model = nn.BatchNorm1d(5)
    held = {"running_mean": torch.randn(5), "running_var": 0.5 + torch.rand(5)}
    model.load_state_dict(held, strict=False)
    model.train(trains)
    x = torch.randn(16, 5, 7)
    got = normed(x, x.mean((0, 2)), x.var((0, 2), correction=0)) if takes_the_batch else normed(x, *held.values())
    known = {"model": model, "arguments": [x], "held": lambda: held}
    with torch.no_grad():
        found = diagnose(wrong(more(got), model(x), **known))
    assert (found.code if found is not None else None) == code
    assert model.training is trains


def test_regions_are_not_named_on_inputs_that_stand_out_in_one_place() -> None:
    want = torch.randn(32, 32)
    got = want.clone()
    got[30:] += 1
    assert diagnose(wrong(got, want)).code == "partial_block"
    assert diagnose(wrong(got, want, plain=False)) is None


def test_another_shape_is_named_with_what_is_wrong_there() -> None:
    inner = Diagnosis(code="partial_block", sentence="wrong in the tail", evidence="3 of 9")
    assert needs_other_shape(None, "dim=37").sentence == "right at its own shape, wrong at dim=37"
    assert needs_other_shape(inner, "dim=37").sentence.endswith("wrong at dim=37: wrong in the tail")


TOLD = [
    (["torch.backends.cudnn.allow_tf32 = True"], ["torch.backends.cudnn.allow_tf32 = True"]),
    (["torch.backends.cudnn.allow_tf32 = \x1b[31m"], []),
    (["os.system = True", 3, None, ["x"]], []),
    ("torch.backends.cudnn.allow_tf32 = True", []),
    (None, []),
]


@pytest.mark.parametrize(("told", "named"), TOLD)
def test_of_what_a_worker_tells_only_switches_count(told, named) -> None:
    assert precision_switches.named(told) == named


def test_a_switch_that_was_set_is_found() -> None:
    before = precision_switches.settings()
    assert precision_switches.changed(before) == []
    torch.set_float32_matmul_precision("medium")
    try:
        assert "torch.get_float32_matmul_precision = medium" in precision_switches.changed(before)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert precision_switches.changed(before) == []


def test_a_traceback_has_the_line_that_raised_first_and_none_of_torch(tmp_path) -> None:
    path = tmp_path / "solution.py"
    path.write_text(
        "import torch\n"
        "def inner(x):\n    return torch.nn.functional.linear(x, x[:, :1])\n"
        "def outer(x):\n    return inner(x)\n"
    )
    names: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with pytest.raises(RuntimeError) as raised:
        nn.Sequential(Calling(names["outer"]))(torch.ones(2, 3))
    lines = traces.trace_of(raised.value).splitlines()
    own = [line for line in lines if str(path) in line]
    assert own[0] == f"{path}:3, in inner: return torch.nn.functional.linear(x, x[:, :1])"
    assert own[1].startswith(f"  called from {path}:5, in outer")
    assert not any("site-packages/torch" in line for line in lines)
    assert lines[-1].startswith("RuntimeError: ")


class Calling(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_an_exception_of_torch_alone_keeps_its_frames() -> None:
    assert traces.is_machinery(torch.__file__)
    assert traces.is_machinery(traces.__file__)
    assert not traces.is_machinery(str(traces.OWN / "solutions" / "group_norm" / "x.py"))
    assert not traces.is_machinery("/home/me/torch/solution.py")


@pytest.mark.parametrize("code", list(TEXTS["diagnosis"]))
def test_every_code_is_explained(code) -> None:
    known = explain(code)
    kind = "property" if code in PROPERTIES else "diagnosis"
    assert (known.kind, known.meaning[-1], known.fix[-1]) == (kind, ".", ".")


class NegativeSums(nn.Module):
    """GELU of sums of products of one sign, which are biased if their factors are cut off."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(64, 32))

    def forward(self, x):
        return functional.gelu(self.sums(x))

    def sums(self, x):
        return -(x @ self.weight).sum(-1, keepdim=True) / 32


def test_a_slip_that_explains_all_goes_before_a_rounding_that_is_like_it() -> None:
    """Its error correlates by 0.86 with that of products in TF32, and is none of it."""
    torch.manual_seed(0)
    model = NegativeSums()
    x = 0.1 * torch.rand(512, 64) * torch.rand(512, 1)
    with torch.no_grad():
        want, got = model(x), functional.gelu(model.sums(x), approximate="tanh")
    found = diagnose(WrongAnswer(got=[got], want=[want], tolerances=[FP32], arguments=[x], model=model))
    assert found is not None
    assert found.code == "gelu_form"
