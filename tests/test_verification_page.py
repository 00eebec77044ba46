"""The page on verification names every constant of the rule, with the value that it has in the code."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^- `([\w.]+)` = ([^(\n]+?)(?: \(.*\))?$", PAGE, re.M))
MODULES = sorted({name.rpartition(".")[0] for name in ROWS})
NOT_OF_THE_RULE = {
    *("numerics.elements.CHUNK_ELEMENTS", "numerics.elements.CPU_CHUNK_ELEMENTS"),
    "numerics.elements.SHOWN_MISMATCHES",  # memory, messages
}
SHORT = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}


def value_of(name):
    module, _, constant = name.rpartition(".")
    return getattr(importlib.import_module(f"kbench.{module}"), constant)


@pytest.mark.parametrize("name", [name for name in ROWS if not name.endswith(".TOLERANCES")])
def test_a_constant_on_the_page_is_the_one_in_the_code(name):
    told = [float(number) for number in ROWS[name].split(", ")]
    value = value_of(name)
    assert told == [float(number) for number in (value if isinstance(value, tuple) else [value])]


def test_the_tolerances_on_the_page_are_those_in_the_code():
    told = {}
    for part in ROWS["numerics.elements.TOLERANCES"].split("; "):
        kinds, _, number = part.partition(": ")
        told |= {SHORT.get(kind, kind): float(number) for kind in kinds.split(", ")}
    assert told == {dtype: tolerance.rtol for dtype, tolerance in value_of("numerics.elements.TOLERANCES").items()}


@pytest.mark.parametrize("module", MODULES)
def test_the_page_leaves_out_no_constant(module):
    """Numbers in capitals at the top of a module of the rule are on the page, or named here as no part of it."""
    tree = ast.parse((ROOT / "kbench" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    assigned = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    names = [name.id for target in assigned for name in ast.walk(target) if isinstance(name, ast.Name)]
    numbers = {f"{module}.{name}" for name in names if isinstance(value_of(f"{module}.{name}"), int | float)}
    assert numbers - NOT_OF_THE_RULE <= set(ROWS)
