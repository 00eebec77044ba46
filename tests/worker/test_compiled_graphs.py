"""Graphs of another case are forgotten, and a process without any imports nothing for it."""

import sys

import pytest
import torch

from kbench.worker.solution import forget_graphs


@pytest.fixture(autouse=True)
def _fresh():
    if dynamo := sys.modules.get("torch._dynamo"):
        dynamo.reset()
        dynamo.utils.counters.clear()


def test_what_was_compiled_for_another_shape_makes_no_graph_dynamic():
    from torch._dynamo.testing import CompileCounter  # takes seconds, and every process of the suite collects this file

    counter = CompileCounter()
    call = torch.compile(torch.sin, backend=counter)
    call(torch.ones(3))
    forget_graphs()
    call(torch.ones(3))
    assert counter.frame_count == 2


def test_without_graphs_nothing_is_reset(monkeypatch):
    monkeypatch.setattr(torch.compiler, "reset", lambda: pytest.fail("nothing was compiled"))
    forget_graphs()
