"""What is no reference is refused with what to write instead."""

import pytest
import tiny_corpus
from references import from_text, reference, weighted

from kbench.core.errors import PluginError


def test_a_shape_that_differs_from_call_to_call_is_refused(tmp_path) -> None:
    with pytest.raises(PluginError, match="shape"):
        reference(tmp_path, "return x[x > 0]", "[torch.randn(400)]")
    with pytest.raises(PluginError, match="shape"):
        reference(tmp_path, "return x + 1", "[torch.randn(int(torch.randint(1, 10**6, ())))]")


@pytest.mark.parametrize("forward", ["return range(3)", "return x.numpy()", "return object()", "return [x, {1, 2}]"])
def test_a_result_that_cannot_be_compared_is_refused(tmp_path, forward) -> None:
    with pytest.raises(PluginError, match="cannot be compared"):
        reference(tmp_path, forward=forward, inputs="[torch.rand(3)]")


QUANTISED = "torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)"


SPARSE = "torch.eye(3).to_sparse()"


NESTED = "torch.nested.nested_tensor([torch.rand(2), torch.rand(3)])"


JAGGED = "torch.nested.nested_tensor([torch.rand(2), torch.rand(3)], layout=torch.jagged)"


@pytest.mark.parametrize(
    ("forward", "inputs", "message"),
    [
        ("return x.to_dense()", f"[{SPARSE}]", "x of the problem is a sparse_coo tensor"),
        ("return x.to_dense()", "[torch.eye(3).to_sparse_csr()]", "x of the problem is a sparse_csr tensor"),
        ("return x['a'].to_dense()", f"[{{'a': {SPARSE}}}]", r"x\['a'\] of the problem is a sparse_coo"),
        ("return x.to_padded_tensor(0)", f"[{NESTED}]", "x of the problem is a nested tensor"),
        ("return x.to_padded_tensor(0)", f"[{JAGGED}]", "x of the problem is a nested tensor"),
        ("return x.dequantize()", f"[{QUANTISED.replace('x', 'torch.rand(3)', 1)}]", "is a quantised tensor"),
        ("return x.to_sparse()", "[torch.rand(3)]", "output of the reference is a sparse_coo tensor"),
        ("return x, x.to_sparse_csr()", "[torch.rand(3, 3)]", r"output\[1\] of the reference is a sparse_csr tensor"),
        (f"return {NESTED}", "[torch.rand(3)]", "output of the reference is a nested tensor"),
        (f"return {QUANTISED}", "[torch.rand(3)]", "output of the reference is a quantised tensor"),
    ],
)
def test_only_dense_tensors_are_supported(tmp_path, forward, inputs, message) -> None:
    with pytest.raises(PluginError, match=f"{message}.*only dense") as caught:
        reference(tmp_path, forward=forward, inputs=inputs)
    assert "to_dense" in (caught.value.hint or "")


@pytest.mark.parametrize("forward", ["x + 1; return None", "return [None, (None,)]", "return {}", "return x[:0]"])
def test_a_reference_that_returns_nothing_is_refused(tmp_path, forward) -> None:
    with pytest.raises(PluginError, match="returns nothing to compare") as caught:
        reference(tmp_path, forward=forward)
    assert "`return`" in (caught.value.hint or "")


def test_complex_numbers_of_16_bits_are_not_supported(tmp_path) -> None:
    drawn = "torch.rand(3, dtype=torch.complex64).to(torch.complex32)"
    for forward, inputs in [("return x.to(torch.complex64)", f"[{drawn}]"), (f"return {drawn}", "[torch.rand(3)]")]:
        with pytest.raises(PluginError, match=r"(x|output) of the \w+ is a tensor of complex32") as caught:
            reference(tmp_path, forward=forward, inputs=inputs)
        assert "complex64" in (caught.value.hint or "")


def test_a_buffer_that_is_not_dense_is_refused(tmp_path) -> None:
    made = tiny_corpus.problem(layers="self.register_buffer('mask', torch.eye(3).to_sparse())")
    with pytest.raises(PluginError, match="mask of the reference's state is a sparse_coo tensor"):
        from_text(tmp_path, made)


def test_a_parameter_whose_elements_are_one_is_refused(tmp_path) -> None:
    with pytest.raises(PluginError, match="`weight` of the reference is expanded"):
        weighted(tmp_path, "torch.rand(1).expand(50)", "self.weight")


@pytest.mark.parametrize(
    ("forward", "why"),
    [
        ("return x + torch.randn(3, 4)", "`forward` draws random numbers: draw them in `get_inputs`"),
        ("return torch.nn.functional.dropout(x, 0.5)", "`forward` draws random numbers"),
        ("return (x, torch.nn.functional.gumbel_softmax(x))", "`forward` draws random numbers"),
        ("self.n = getattr(self, 'n', 0) + 1; return x + self.n", "`Model` keeps a state between calls: compute each"),
    ],
)
def test_a_reference_that_is_no_function_says_where_and_why(tmp_path, forward, why) -> None:
    with pytest.raises(PluginError) as raised:
        reference(tmp_path, forward)
    told = str(raised.value)
    assert told.startswith("the reference gives two outputs for equal inputs: output")
    assert " is " in told
    assert ", then " in told
    assert why in told
