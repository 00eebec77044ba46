"""Graphs of another case are forgotten, and a process without any imports nothing for it."""

import pytest
import torch
import torch._dynamo
from torch._dynamo.testing import CompileCounter

from kbench.worker.solution import forget_graphs


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def test_what_was_compiled_for_another_shape_makes_no_graph_dynamic():
    counter = CompileCounter()
    call = torch.compile(torch.sin, backend=counter)
    call(torch.ones(3))
    forget_graphs()
    call(torch.ones(3))
    assert counter.frame_count == 2


def test_without_graphs_nothing_is_reset(monkeypatch):
    monkeypatch.setattr(torch.compiler, "reset", lambda: pytest.fail("nothing was compiled"))
    forget_graphs()
