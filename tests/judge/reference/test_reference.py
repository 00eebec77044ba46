"""The judge's side of a problem: references that change or return their inputs, odd inputs, and FLOPs."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny_corpus
import torch
from references import from_text, reference, weighted

from kbench.judge.reference import first_call
from kbench.judge.reference.drawing import is_constant_mask, is_labels, is_number, is_value, over_tensors
from kbench.judge.reference.reference import Reference
from kbench.judge.verify.variations import centred, flipped, moved_by


@pytest.mark.parametrize(
    ("forward", "mutates", "reshapes", "aliased"),
    [
        ("return x + 1", set(), False, set()),
        ("return x.t()", set(), False, {"output"}),
        ("return x + 1, x[0]", set(), False, {"output[1]"}),
        ("return x.add_(1)", {0}, False, {"output"}),
        ("return x.add_(1).clone()", {0}, False, set()),
        ("return x.add_(1).flatten()", {0}, False, {"output"}),
        ("return x.add_(1).sum()", {0}, False, set()),
        ("return x.unsqueeze_(1) * 2", set(), True, set()),
        ("return x.t_() * 2", set(), True, set()),
        ("return x.unsqueeze_(0).add_(1) * 2", {0}, True, set()),
    ],
)
def test_what_a_reference_does_to_its_inputs(tmp_path, forward, mutates, reshapes, aliased) -> None:
    found = reference(tmp_path, forward)
    assert (found.mutates, found.reshapes, found.aliased) == (mutates, reshapes, aliased)
    one, other = (found.expect(found.arguments(seed=1)).judged for _ in range(2))
    assert [*one] == [*other], "an object of its own for each call"
    assert [t.shape for t in one.values()] == [t.shape for t in other.values()]


@pytest.mark.parametrize("returned", ["x.sum()", "x", "x.clone()"])
def test_an_input_that_is_changed_is_a_result_returned_or_not(tmp_path, returned) -> None:
    found = reference(tmp_path, f"x.mul_(3); return {returned}")
    expected = found.expect(found.arguments(seed=1))
    names = list(expected.judged)
    assert names == ["output", "`x` after the call"]
    torch.testing.assert_close(expected.judged[names[1]], 3 * expected.arguments[0])
    ((_, (_, exact)),) = found.oracle(expected) or ()
    torch.testing.assert_close(exact, 3 * expected.arguments[0].double())


@pytest.mark.parametrize(
    ("weight", "function", "signs", "kept"),
    [
        ("torch.ones(50)", "self.weight", {-1.0, 1.0}, False),
        ("torch.ones(50)", "self.weight.log()", {1.0}, False),
        ("-torch.ones(50)", "(-self.weight).sqrt()", {-1.0}, False),
        ("torch.ones(50)", "torch.where(self.weight == 1, 1.0, float('nan'))", {1.0}, True),
        ("torch.ones(50)", "self.weight if bool((self.weight > 0).all()) else 1 / 0", {1.0}, False),
    ],
)
def test_parameters_vary_as_far_as_the_reference_stays_finite(tmp_path, weight, function, signs, kept) -> None:
    found = weighted(tmp_path, weight, function)
    found.randomise()
    values = found.model.weight.detach()
    assert found.is_finite()
    assert (set(values.sign().tolist()), found.keeps_weights) == (signs, kept)
    assert (values.unique().numel() == 1) == kept


def test_complex_parameters_vary_and_have_an_oracle(tmp_path) -> None:
    found = weighted(tmp_path, "torch.ones(50, dtype=torch.cfloat)", "self.weight")
    found.randomise()
    assert found.model.weight.detach().imag.unique().numel() > 40
    ((_, (exact,)),) = found.oracle(found.expect(found.arguments(seed=1))) or ()
    assert exact.dtype == torch.complex128


def test_arguments_stay_as_they_were_where_the_reference_changes_them(tmp_path) -> None:
    found = reference(tmp_path, "return x.mul_(2)")
    arguments = found.arguments(seed=1)
    before = arguments[0].clone()
    expected = found.expect(arguments)
    assert torch.equal(expected.arguments[0], before)
    assert torch.equal(expected.tensors[0], 2 * before)
    ((_, oracles),) = found.oracle(expected)
    assert all(torch.equal(oracle, 2 * before.double()) for oracle in oracles)
    assert len(oracles) == 2, "what is returned, and the input after the call"


HELD = "self.mean, self.var = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.ones(4))"
BUFFERS = "self.register_buffer('mean', torch.zeros(4)); self.register_buffer('var', torch.ones(4))"


def with_statistics(folder: Path, held: str) -> Reference:
    made = tiny_corpus.problem(
        "self.calls += 1; return nn.functional.batch_norm(x, self.mean, self.var, self.weight, training=self.training)",
        given="torch.randn(8, 4)",
        layers=f"{held}; self.register_buffer('calls', torch.zeros(())); self.weight = nn.Parameter(torch.ones(4))",
    )
    return from_text(folder, made)


def test_parameters_that_a_call_changes_are_known_and_begin_each_call_as_the_first(tmp_path) -> None:
    found = with_statistics(tmp_path, HELD)
    assert found.drifts == {"mean", "var", "calls"}
    assert found.drifting, "parameters are among them"
    found.randomise()
    before = {name: t.clone() for name, t in found.state()}
    found.expect(found.arguments(seed=1))
    assert all(torch.equal(t, before[name]) for name, t in found.state())


def test_statistics_in_buffers_need_no_reset_in_a_worker(tmp_path) -> None:
    found = with_statistics(tmp_path, BUFFERS)
    assert (found.drifts, found.drifting) == ({"mean", "var", "calls"}, False)


SEEDED = "(torch.manual_seed(3), [torch.randn(50)])[1]"


def test_inputs_that_do_not_follow_the_seed_are_varied_here(tmp_path) -> None:
    found = reference(tmp_path, "return 2 * x", SEEDED)
    assert (found.inputs.unvaried, found.inputs.repeat, found.inputs.jitter) == ((), False, True)
    ((one,), (again,), (other,)) = (found.arguments(seed) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    (plain,) = found.problem.inputs(1)
    assert 0.8 < (one / plain).min() < (one / plain).max() < 1.25


@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        ("return x + 1", "[torch.arange(9)]"),  # no floating-point tensor
        ("return x + 1", "[(torch.arange(9) % 2).float()]"),  # labels
        ("assert x.sum() == 9; return x + 1", "[torch.ones(9)]"),  # the reference refuses others
        ("return torch.where(x == 1, x, float('nan'))", "[torch.ones(9)]"),
    ],
)
def test_inputs_that_cannot_be_varied_are_known_to_repeat(tmp_path, forward, inputs) -> None:
    assert reference(tmp_path, forward, inputs).inputs.repeat


@pytest.mark.parametrize(
    ("inputs", "kinds"),
    [
        ("[torch.randn(9), 2.5, torch.ones(4, dtype=torch.bool)]", {is_value, is_number, is_constant_mask}),
        ("[{'mask': torch.zeros(4, dtype=torch.bool)}, torch.arange(4)]", {is_constant_mask}),
        ("[torch.rand(99) > 0.5, 3]", set()),
        ("[torch.ones(1, dtype=torch.bool), (torch.rand(99) > 0.5).float()]", set()),
    ],
)
def test_what_can_be_varied_in_the_inputs(tmp_path, inputs, kinds) -> None:
    found = reference(tmp_path, "return torch.ones(2)", inputs, parameters="*x")
    assert {kind for kind in (is_value, is_number, is_constant_mask) if found.inputs.has(kind)} == kinds


def test_a_number_and_a_mask_are_varied_alone(tmp_path) -> None:
    inputs = "[torch.ones(3), 2.0, 4, torch.ones(500, dtype=torch.bool)]"
    found = reference(tmp_path, "return torch.ones(2)", inputs, parameters="*x")
    found.inputs.jitter = False
    x, number, whole, mask = found.arguments(1, lambda value: 1.25 * value, is_number)
    assert (x.tolist(), number, whole, bool(mask.all())) == ([1.0] * 3, 2.5, 4, True)
    x, number, whole, mask = found.arguments(1, flipped, is_constant_mask)
    assert (x.tolist(), number, whole) == ([1.0] * 3, 2.0, 4)
    assert 0.8 < mask.float().mean() < 0.98


@pytest.mark.parametrize(
    ("forward", "inputs", "jitter", "repeats"),
    [
        (
            "x.mean()",
            "[torch.rand(1 << 18).bfloat16()]",
            True,
            (),
        ),  # a mean of many terms is, to three digits, one half
        ("x.mean()", "[torch.rand(64)]", False, ()),
        ("x.sum(0)", "[torch.rand(9, 70_000)]", False, ()),
        ("x - x", "[torch.rand(64)]", True, ("output",)),  # whatever the inputs
        ("(x.mean(), x)", "[torch.rand(1 << 18).bfloat16()]", True, ()),
        ("(x > 2).sum()", "[torch.rand(64)]", False, ()),  # exact values are not looked at
    ],
)
def test_an_output_that_hardly_depends_on_the_inputs_makes_them_vary_more(tmp_path, forward, inputs, jitter, repeats):
    made = reference(tmp_path, f"return {forward}", inputs)
    assert (made.inputs.jitter, made.repeats) == (jitter, repeats)


def test_one_input_that_varies_is_enough(tmp_path) -> None:
    found = reference(tmp_path, "return x[0] + x[1]", "[[torch.ones(4), torch.randn(4)]]")
    assert (found.inputs.unvaried, found.inputs.repeat) == (("x[0]",), False)


def test_tensors_within_lists_are_varied_too(tmp_path) -> None:
    found = reference(tmp_path, "return x[0] + x[1]['b']", "[[torch.ones(3), {'b': torch.ones(3), 'n': 2}]]")
    found.inputs.jitter = False  # these never vary
    (varied,) = found.arguments(1, lambda t: t + 1)
    assert torch.equal(varied[0], torch.full((3,), 2.0))
    assert torch.equal(varied[1]["b"], torch.full((3,), 2.0))
    assert varied[1]["n"] == 2


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1.0, -1.0, 1.0], True),
        ([0.0, 1.0, 1.0, 0.0], True),
        ([0.0, 0.0, 0.0], False),
        ([0.5, 1.0, 2.0], False),
        ([0.0, 1.0], False),
        ([], False),
        ([0.0, float("nan"), 1.0], False),
    ],
)
def test_what_counts_as_labels(values, labels) -> None:
    assert is_labels(torch.tensor(values)) is labels


def test_labels_are_not_varied(tmp_path) -> None:
    found = reference(tmp_path, "return x", "[torch.tensor([1.0, -1.0, 1.0])]")
    (kept,) = found.arguments(1, lambda t: t + 1)
    assert kept.tolist() == [1.0, -1.0, 1.0]


def test_zeros_among_others_are_structure() -> None:
    assert moved_by(3, torch.tensor([0.0, 1.0])).tolist() == [0.0, 4.0]
    assert moved_by(3, torch.zeros(2)).tolist() == [3.0, 3.0]


def test_tensors_are_found_wherever_they_are() -> None:
    nest = {"a": [torch.ones(()), 3], "b": (None, torch.ones(()))}
    assert over_tensors(nest, lambda t: t.item() + 1) == {"a": [2.0, 3], "b": (None, 2.0)}


@pytest.mark.parametrize(
    ("forward", "flops"),
    [
        ("return x @ x.t()", 2 * 3 * 4 * 3),
        ("return torch.nn.functional.linear(x, torch.ones(5, 4)) + 1", 2 * 3 * 4 * 5),
        ("return torch.nn.functional.conv1d(x[None], torch.ones(2, 3, 3))", 2 * 2 * 3 * 3 * 2),
        ("return torch.nn.functional.group_norm(x[None, :2], 2)", 0),
        ("return torch.inference_mode()(torch.nn.functional.linear)(x, torch.ones(5, 4))", 2 * 3 * 4 * 5),
    ],
)
def test_products_and_convolutions_are_counted(tmp_path, forward, flops) -> None:
    assert reference(tmp_path, forward).cost.flops == flops


@pytest.mark.parametrize(
    ("forward", "by_precision"),
    [
        ("return x @ x.t()", {"fp32": 72}),
        ("return x.bfloat16() @ x.t().bfloat16()", {"bf16": 72}),
        (
            "return torch.nn.functional.linear(x.half(), torch.ones(5, 4).half()).float() @ torch.ones(5, 1)",
            {"fp16": 120, "fp32": 30},
        ),
        ("return x.double() @ x.t().double()", {"fp64": 72}),
        ("return x + 1", {}),
    ],
)
def test_each_precision_is_counted_by_itself(tmp_path, forward, by_precision) -> None:
    """At the rate of fp32, the limit of a product in bf16 was eleven times too long on an H200."""
    assert reference(tmp_path, forward).cost.flops_by_precision == by_precision


def test_counting_does_not_import_the_compiler(after_torch_process) -> None:
    """It would cost every judge seconds."""
    code = """
        import sys, torch
        from kbench.judge.reference.first_call import count
        result, flops, types = count(lambda: torch.ones(2, 3).half().float() @ torch.ones(3, 4))
        assert (tuple(result.shape), flops, types) == ((2, 4), {"fp32": 48}, {torch.half, torch.float})
        assert "torch._dynamo" not in sys.modules
    """
    after_torch_process.run(code)


def test_values_are_centred_around_their_mean() -> None:
    assert centred(torch.tensor([1.0, 2.0, 6.0])).tolist() == [-2.0, -1.0, 3.0]
    assert centred(torch.tensor([0.0, 2.0, 4.0])).tolist() == [0.0, 0.0, 2.0], "zeros are structure"
    assert centred(torch.empty(0)).tolist() == []


def test_arguments_are_drawn_again(tmp_path) -> None:
    found = reference(tmp_path, forward="return x + 1", inputs="[torch.rand(3)]")
    drawn = found.arguments(7, lambda x: x * torch.rand(3))
    before = drawn[0].clone()
    drawn.recall()
    assert drawn[0] is not before
    drawn.clear()
    drawn.recall()
    assert torch.equal(drawn[0], before)
    assert found.inputs.follow_seeds()
    unseeded = "[torch.rand(3) * int.from_bytes(__import__('os').urandom(4), 'little')]"
    assert not reference(tmp_path, forward="return x + 1", inputs=unseeded).inputs.follow_seeds()


@pytest.mark.parametrize(
    ("forward", "inputs", "depend"),
    [
        ("return x.softmax(1)", "[torch.randn(6, 5)]", False),
        ("return x[:, torch.arange(3)]", "[torch.randn(6, 5)]", True),  # not known to be constant
        ("return x.gather(1, y)", "[torch.randn(6, 5), torch.randint(5, (6, 2))]", False),
        ("return nn.functional.cross_entropy(x, y)", "[torch.randn(6, 5), torch.randint(5, (6,))]", False),
        ("return x.gather(1, (4 * y).long())", "[torch.randn(6, 5), torch.rand(6, 2)]", True),
        ("return torch.zeros(8).scatter_add(0, (8 * x).long(), x)", "[torch.rand(50)]", True),
        ("return nn.functional.binary_cross_entropy(x, y)", "[torch.rand(6), torch.rand(6)]", True),
    ],
)
def test_values_that_may_end_a_gpus_process_are_tried_on_the_host(tmp_path, monkeypatch, forward, inputs, depend):
    """Three attempts at a judge that its own reference ended were a failure of kbench's, with any solution."""
    found = reference(tmp_path, forward, inputs, parameters="x, y" if "y" in forward else "x")
    assert found.indices.depend_on_values is depend
    asked: list[Any] = []
    monkeypatch.setattr(first_call, "backend", lambda _: SimpleNamespace(has_own_memory=True))
    monkeypatch.setattr(first_call, "raised_on_host", lambda _, given: asked.append(given))
    assert not isinstance(found.try_changed(found.arguments(1)), Exception)
    assert bool(asked) is depend
    if depend:
        monkeypatch.setattr(first_call, "raised_on_host", lambda *_: IndexError("-1 is out of bounds"))
        assert isinstance(found.try_changed(found.arguments(1)), IndexError)


@pytest.mark.parametrize(("row", "refused"), [(1.0, False), (math.nan, True)])
def test_what_the_host_refuses(row, refused) -> None:
    """The threshold of sparsemax is at the last value above it; no value is above NaN, so the place is -1."""
    x = torch.full((2, 3), row)

    class Threshold(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            above = (1 + x > x.mean()).sum(-1, keepdim=True)
            return x.gather(-1, above - 1)

    assert (first_call.raised_on_host(Threshold(), [x]) is not None) is refused


def test_the_time_of_a_call_is_known(tmp_path) -> None:
    """Calls of a solution may take many times as long, while it is verified too."""
    assert reference(tmp_path, "import time; time.sleep(0.05); return x + 1").call_s >= 0.05


def test_eval_mode_may_be_asked_for(tmp_path) -> None:
    made = tiny_corpus.problem("self.norm(x)", given="3 + torch.randn(8, 4)", layers="self.norm = nn.BatchNorm1d(4)")
    means = []
    for asked in (False, True):
        found = from_text(tmp_path, made, eval_mode=asked)
        found.restore(anew=True)
        assert (found.eval_mode, found.model.training) == (asked, not asked)
        means.append(found.expect(found.arguments(1)).tensors[0].mean().item())
    assert means == [pytest.approx(0, abs=1e-5), pytest.approx(3, abs=0.5)]


RANDOM = [
    ("torch.nn.Dropout(0.1)", True),
    ("torch.nn.Dropout2d(0.1)", True),
    ("torch.nn.Dropout(0.0)", False),
    ("torch.nn.RReLU()", True),
    ("torch.nn.RReLU(0.2, 0.2)", False),
]


@pytest.mark.parametrize(("layer", "evaluates"), RANDOM)
def test_only_what_draws_random_numbers_makes_for_eval_mode(tmp_path, layer, evaluates) -> None:
    made = tiny_corpus.problem("self.layer(x)", given="torch.randn(2, 3, 8, 8)", layers=f"self.layer = {layer}")
    found = from_text(tmp_path, made)
    assert (found.eval_mode, found.model.training) == (evaluates, not evaluates)


CODE = """
import sys
from kbench.judge.reference.first_call import FORMULAS
print(len(FORMULAS) > 15, 'triton' in sys.modules)
import triton
"""


def test_formulas_are_imported_without_triton(tmp_path, after_torch_process) -> None:
    package = tmp_path / "triton" / "runtime"
    package.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").write_text("print('triton is imported')")
    (package / "jit.py").write_text("JITFunction = type('JITFunction', (), {})")
    path = f"import sys\nsys.stderr = sys.stdout\nsys.path.insert(0, {str(tmp_path)!r})\n"
    assert after_torch_process.run(path + CODE) == "True False\ntriton is imported\n"
