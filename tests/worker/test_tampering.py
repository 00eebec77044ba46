"""What a solution must not replace: found by name, whatever it does, and nothing that torch itself does is."""

import pytest
import torch

from kbench.worker.tampering import Originals


@pytest.mark.parametrize(
    ("owner", "attribute", "named"),
    [
        (torch.cuda.Stream, "wait_stream", "torch.cuda.Stream.wait_stream"),
        (torch.cuda, "synchronize", "torch.cuda.synchronize"),
        (torch, "allclose", "torch.allclose"),
        (torch.Tensor, "copy_", "torch.Tensor.copy_"),
        (torch.nn.functional, "relu", "torch.nn.functional.relu"),
    ],
)
def test_a_replaced_function_is_named(monkeypatch, owner, attribute, named):
    originals = Originals()
    assert originals.replaced() == ()
    monkeypatch.setattr(owner, attribute, lambda *_: None)
    assert originals.replaced() == (named,)


def test_other_code_in_the_same_function_is_seen(monkeypatch):
    originals = Originals()
    monkeypatch.setattr(torch.cuda.synchronize, "__code__", (lambda device=None: None).__code__)
    assert originals.replaced() == ("torch.cuda.synchronize",)


def test_what_torch_does_itself_is_no_tampering():
    originals = Originals()
    import torch._dynamo
    import torch.utils.cpp_extension

    with torch.autocast("cpu"), torch.no_grad():
        torch.nn.Linear(2, 2)(torch.ones(1, 2))
    torch.ones(2).share_memory_()
    assert originals.replaced() == ()


def test_another_default_type_is_no_tampering():
    originals, before = Originals(), torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        assert originals.replaced() == ()
    finally:
        torch.set_default_dtype(before)
