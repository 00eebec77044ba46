"""The table of messages: each code with its meaning and next step, and each error with its hint."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import kbench
from kbench.core import errors
from kbench.core.explain import EXPLANATIONS, Explanation
from kbench.selftest.fixtures import CORPUS

PACKAGE = Path(kbench.__file__).parent
ERRORS = {name for name in vars(errors) if name.endswith("Error")} - {"InternalError"}
WITHOUT_A_HINT = 18
"""Number of errors without a hint: the message has the step, or is another program's. Only lower it."""
NOUNS = ("the", "a", "an", "this", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An error as the code raises it: its place, and the sources of its text and of its hint."""

    path: str
    line: int
    text: str
    hint: str


def raised() -> Iterator[Message]:
    """Yield every error of `core.errors` that is raised, with placeholders for values."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.is_relative_to(CORPUS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            call = node.exc if isinstance(node, ast.Raise) else None
            if not isinstance(call, ast.Call) or not call.args:
                continue
            if getattr(call.func, "attr", getattr(call.func, "id", "")) not in ERRORS:
                continue
            hints = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "hint")]
            hint = ast.unparse(hints[0]) if hints else ""
            place = str(path.relative_to(PACKAGE))
            yield Message(path=place, line=node.lineno, text=ast.unparse(call.args[0]), hint=hint)


def table() -> str:
    """Return all codes and errors, one a line, for a person to read: print(table()) in a shell."""
    codes = [f"{one.kind} {one.code}: {one.meaning} -> {one.fix}" for one in EXPLANATIONS.values()]
    return "\n".join([*codes, *(f"{one.path}:{one.line}: {one.text} -> {one.hint}" for one in raised())])


@pytest.mark.parametrize("one", EXPLANATIONS.values(), ids=lambda one: f"{one.kind} {one.code}")
def test_a_code_has_a_meaning_and_a_next_step(one: Explanation) -> None:
    assert re.fullmatch(r"\S.{10,}[.]" if one.kind != "flag" else r"\S.{10,}[^.]", one.meaning), "one sentence"
    assert re.fullmatch(r"\S.{5,}[.]", one.fix), "a sentence, in the imperative"
    assert one.fix.split()[0].lower() not in NOUNS, "begins with a verb: what to do"
    assert len(one.meaning) <= 200
    assert len(one.fix) <= 160, "one step, not a list of them"
    assert "\n" not in one.meaning + one.fix


def test_a_code_names_one_thing() -> None:
    """Two codes of one kind with one meaning are one code."""
    found = [(one.kind, one.meaning) for one in EXPLANATIONS.values()]
    assert len(set(found)) == len(found)


def test_an_error_has_a_hint() -> None:
    assert len([f"{one.path}:{one.line}" for one in raised() if not one.hint]) <= WITHOUT_A_HINT


def test_the_table_has_all() -> None:
    assert len(table().splitlines()) > len(EXPLANATIONS) + 150, (
        "the search misses some: are errors made in another way?"
    )
