"""Sizes of kbench's rooms, and the numbers in budget.toml that they may not exceed.

A room is a folder of `kbench/` (the modules beside the folders are one room, `verbs`), `kbench` for their sum, `tests`
or `pages`. What users read as examples (kernels, problems, solutions) and the selftest's corpus have no budget.
"""

import ast
import functools
import json
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import wording

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kbench"
FILE = Path(__file__).with_name("budget.toml")
WITHOUT_BUDGET = tuple(PACKAGE / name for name in ("kernels", "problems", "solutions", "selftest/corpus"))
HEAD = """# What each room of kbench may have at most: a change may only lower a number (tests/test_budget.py).
# `python tests/test_budget.py --lower` writes down what has become smaller.
"""
SUM, TESTS, PAGES, VERBS = "kbench", "tests", "pages", "verbs"
MAX_SHARE_BELOW = 0.03
"""A number may lie below its budget by this share of it."""
MAX_BELOW = {"lines": 30, "words": 300, "wording": 5}
"""A number may always lie below its budget by this much; by 1 where nothing is said."""
FLAG_FUNCTIONS = {"option", "switch", "argument"}

Sizes = dict[str, dict[str, int]]
"""By room, what is counted in it."""


@functools.cache
def sources() -> dict[Path, str]:
    """Return the Python files that have a budget, with their text."""
    paths = [*sorted(PACKAGE.rglob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]
    chosen = [path for path in paths if not any(map(path.is_relative_to, WITHOUT_BUDGET))]
    return {path: path.read_text(encoding="utf-8") for path in chosen}


@functools.cache
def pages() -> dict[Path, str]:
    """Return the pages for users, with their text."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {path: path.read_text(encoding="utf-8") for path in paths}


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return the nodes of a source's tree, a parent before its parts."""
    return list(ast.walk(ast.parse(sources()[path])))


def room_of(path: Path) -> str:
    """Return the room of a source or a page."""
    if path.suffix == ".md":
        return PAGES
    parts = path.relative_to(ROOT).parts
    if parts[0] == "tests":
        return TESTS
    return parts[1] if len(parts) > 2 else VERBS


@functools.cache
def findings() -> dict[str, list[str]]:
    """Return what `wording` finds in each room but the tests, one line each."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in in_kbench():
        lines = wording.of_source(sources()[path], nodes_of(path))
        found[room_of(path)] += [f"{path.relative_to(ROOT)}:{one}" for one in lines]
    for path, text in pages().items():
        found[PAGES] += [f"{path.relative_to(ROOT)}:{one}" for one in wording.of_page(text)]
    return found


def measured() -> Sizes:
    """Count everything that has a budget."""
    found: Sizes = {}
    for path in in_kbench():
        room = found.setdefault(room_of(path), dict.fromkeys(("lines", "files", "classes", "constants"), 0))
        room["lines"] += len(sources()[path].splitlines())
        room["files"] += 1
        room["classes"] += sum(isinstance(node, ast.ClassDef) for node in nodes_of(path))
        room["constants"] += sum(1 for _ in constants(nodes_of(path)[0]))
    total = {kind: sum(room[kind] for room in found.values()) for kind in ("lines", "files", "classes", "constants")}
    kinds = json.loads((PACKAGE / "core" / "codes.json").read_text())
    codes = sum(map(len, [*kinds.pop("property").values(), *kinds.values()]))
    tests = [text for path, text in sources().items() if room_of(path) == TESTS]
    found[SUM] = {**total, "flags": flags(), "codes": codes}
    found[TESTS] = {"lines": sum(len(text.splitlines()) for text in tests), "files": len(tests)}
    found[PAGES] = {"words": sum(len(text.split()) for text in pages().values())}
    for room, lines in findings().items():
        found[room]["wording"] = len(lines)
    found[SUM]["wording"] = sum(len(lines) for room, lines in findings().items() if room != PAGES)
    return found


def in_kbench() -> list[Path]:
    """Return the sources of kbench itself."""
    return [path for path in sources() if room_of(path) != TESTS]


def constants(module: ast.AST) -> Iterator[str]:
    """Yield the constants of a module that are numbers: limits, tolerances, shares."""
    assert isinstance(module, ast.Module)
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = list(zip(targets, values, strict=True))
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value):
                pairs = [(target, value)]
            case _:
                pairs = []
        for name, value in pairs:
            if isinstance(name, ast.Name) and name.id.isupper() and is_number(value):
                yield name.id


def is_number(value: ast.expr | None) -> bool:
    """Return whether an expression is a number, arithmetic of numbers, or a collection of them."""
    match value:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.Tuple(elts=elements) | ast.Dict(values=elements):
            return bool(elements) and all(map(is_number, elements))
    return False


def flags() -> int:
    """Count the declarations of flags and arguments of the command line."""
    calls = [
        node.func.id
        for path in in_kbench()
        if room_of(path) == "cli"
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    return sum(name in FLAG_FUNCTIONS for name in calls)


def read() -> Sizes:
    """Read the budgets."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def written(sizes: Sizes) -> str:
    """Return budgets as the text of a file: a line for each room."""
    rooms = sorted(sizes, key=lambda room: (room not in {SUM, TESTS, PAGES}, room))
    lines = (
        f"{room} = {{ {', '.join(f'{kind} = {number}' for kind, number in sizes[room].items())} }}" for room in rooms
    )
    return HEAD + "\n".join(lines) + "\n"


def is_far_below(kind: str, number: int, budget: int) -> bool:
    """Return whether a number must be written down, so that what was saved is not spent again."""
    return budget - number > max(MAX_SHARE_BELOW * budget, MAX_BELOW.get(kind, 1))


def lowered(budgets: Sizes, now: Sizes) -> Sizes:
    """Return the budgets with every number that has become much smaller, and with rooms that came or went."""
    found: Sizes = {}
    for room, kinds in now.items():
        old = budgets.get(room, {})
        kept = {kind: old.get(kind, number) for kind, number in kinds.items()}
        found[room] = {kind: kinds[kind] if is_far_below(kind, kinds[kind], n) else n for kind, n in kept.items()}
    return found


def complaints(budgets: Sizes, now: Sizes, chosen: Callable[[str], bool] = lambda _: True) -> list[str]:
    """Return a sentence for each number of the `chosen` kinds that is above its budget, or far below."""
    found = [f"{room}: has a budget and is gone" for room in budgets if room not in now]
    for room, kinds in now.items():
        for kind in filter(chosen, kinds):
            number, budget = kinds[kind], budgets.get(room, {}).get(kind)
            if budget is None:
                found.append(f"{room}: {number:,} {kind}, and no budget")
            elif number > budget:
                found.append(f"{room}: {number:,} {kind}, {number - budget:,} above the budget of {budget:,}")
            elif is_far_below(kind, number, budget):
                found.append(f"{room}: {number:,} {kind}, {budget - number:,} below the budget of {budget:,}")
    return found
