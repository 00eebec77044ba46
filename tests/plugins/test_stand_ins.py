"""What stands in for torch.compile, symbolic shapes and sympy says what these say of plain numbers, and then leaves."""

import sys
from collections.abc import Callable

import pytest

from kbench.plugins.stand_ins import MEMBERS, StandIn, without_slow_imports

PROBLEM = """
import torch
from torch import nn

batch = 8

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return torch.softmax(self.conv(x) * 2 + 1, -1)

def get_inputs():
    return [torch.rand(batch, 3, 8, 8)]

def get_init_inputs():
    return []
"""
SLOW = "{'sympy', 'torch._dynamo', 'torch.fx.experimental.symbolic_shapes'}"


@pytest.fixture
def in_a_fresh_process(tmp_path, after_torch_process) -> Callable[[str], str]:
    """Return what code prints after the usual imports, with `path` as the problem's file."""
    path = tmp_path / "problem.py"
    path.write_text(PROBLEM)
    begin = "import sys\nfrom pathlib import Path\nfrom kbench.plugins import shapes, stand_ins\n"
    begin += f"path = Path({str(path)!r})\n"
    return lambda code: after_torch_process.run(begin + code).strip()


def test_shapes_are_derived_without_slow_imports(in_a_fresh_process) -> None:
    code = f"print(len(shapes.derive(path, {{}}).cases), {SLOW} & set(sys.modules))"
    assert in_a_fresh_process(code) == "2 set()"


@pytest.mark.parametrize(
    "more",
    [
        "import sympy\n    seen = sympy.Symbol('n') + 1",
        "from torch.fx.experimental.symbolic_shapes import ShapeEnv\n    seen = ShapeEnv()",
    ],
)
def test_whoever_wants_more_gets_the_real_module(more, in_a_fresh_process) -> None:
    """And a stand-in that somebody kept has no members of its own afterwards."""
    code = (
        "with stand_ins.without_slow_imports(path):\n    import sympy as kept\n"
        f"    {more}\n"
        "import sympy\nprint(bool(seen), issubclass(sympy.Integer, kept.Basic), sympy.Basic is kept.Basic)"
    )
    assert in_a_fresh_process(code) == "True True True"


@pytest.mark.parametrize(
    ("place", "imported"),
    [
        ("import torch\n", "import helper\n"),
        ("    def forward(self, x):\n", "        import helper\n"),
    ],
)
def test_a_module_that_a_problem_imports_may_want_parts_of_the_real_ones(
    place, imported, tmp_path, in_a_fresh_process
) -> None:
    """Those of torch.export are among them, and its own file has none of the words that tell of it."""
    (tmp_path / "helper.py").write_text("from torch._dynamo.exc import Unsupported\nfrom sympy.core import Symbol\n")
    code = "sys.path.insert(0, str(path.parent))\n"
    code += f"path.write_text(path.read_text().replace({place!r}, {place + imported!r}, 1))\n"
    code += "from kbench.plugins import problem\n"
    code += "print(len(shapes.derive(path, {}).cases), problem.footprint_bytes(path, {}) > 0)"
    assert in_a_fresh_process(code) == "2 True"


def test_a_module_imported_meanwhile_keeps_no_answer_for_plain_numbers_only(tmp_path, in_a_fresh_process) -> None:
    (tmp_path / "helper.py").write_text("from torch.fx.experimental.symbolic_shapes import guard_or_false, sym_eq\n")
    code = (
        "sys.path.insert(0, str(path.parent))\nwith stand_ins.without_slow_imports(path):\n    import helper\n"
        "    assert helper.guard_or_false(True)\n"
        "from torch.fx.experimental import symbolic_shapes as real\n"
        "real.guard_or_false = lambda _: 'asked'\nprint(helper.guard_or_false(True), helper.sym_eq(3, 3))"
    )
    assert in_a_fresh_process(code) == "asked True"


@pytest.mark.parametrize(
    ("text", "stand_in"), [("", True), ("torch.compile(f)", False), ("import torch._dynamo", False), ("sympy", False)]
)
def test_a_file_that_may_want_more_gets_no_stand_ins(text, stand_in, tmp_path, monkeypatch) -> None:
    path = tmp_path / "problem.py"
    path.write_text(text)
    for name in MEMBERS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    with without_slow_imports(path):
        assert all(isinstance(sys.modules.get(name), StandIn) is stand_in for name in MEMBERS)
    assert not any(isinstance(module, StandIn) for module in sys.modules.values())


PLAIN = {
    "expect_true": [(True,), (False,)],
    "guard_or_false": [(True,), (False,)],
    "guard_or_true": [(True,), (False,)],
    "statically_known_true": [(True,), (False,)],
    "guard_size_oblivious": [(True,), (False,)],
    "guard_int": [(7,)],
    "guarding_hint_or_throw": [(7,), (True,)],
    "size_hint": [(7,)],
    "has_guarding_hint": [(7,)],
    "has_hint": [(7,)],
    "is_nested_int": [(7,)],
    "sym_and": [(True,), (True, False), (True, True, True)],
    "sym_or": [(False,), (True, False), (False, False, False)],
    "sym_eq": [(3, 3), (3, 4), ((1, 2), [1, 2]), ([1], [1, 2]), ((), ())],
}


@pytest.mark.filterwarnings("ignore:.*guard_size_oblivious:FutureWarning")
def test_plain_numbers_have_the_results_that_torch_gives_them() -> None:
    from torch.fx.experimental import symbolic_shapes

    members = MEMBERS["torch.fx.experimental.symbolic_shapes"]
    assert set(members) == set(PLAIN)
    for name, calls in PLAIN.items():
        for given in calls if hasattr(symbolic_shapes, name) else []:  # torch's versions differ in which they have
            assert members[name](*given) == getattr(symbolic_shapes, name)(*given), (name, given)
