"""Messages: each code has a meaning and a next step, each error a hint, and every command they name can be typed."""

import ast
import functools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

import kbench
from kbench.cli.app import COMMANDS, build_app
from kbench.core import errors
from kbench.core.explain import EXPLANATIONS, Explanation
from kbench.selftest.fixtures import CORPUS

PACKAGE = Path(kbench.__file__).parent
COMMAND = re.compile(r"`(kbench [^`]+)`")
OPTION = re.compile(r"`(--[a-z][a-z0-9-]*)")

ERRORS = {name for name in vars(errors) if name.endswith("Error")} - {"InternalError"}
WITHOUT_A_HINT = 19
"""Number of errors without a hint: the message has the step, or is another program's. Only lower it."""
VALUES = {
    "DATE": "2027-01-01",
    "SHARE": "5%",
    "template": "solution PROBLEM NAME",
    "_arguments(case)": "PROBLEM SOLUTION --case CASE",
    "_arguments(unclear[0])": "PROBLEM SOLUTION --case CASE",
    "more": "12",
    "header.command": "sweep",
    "name": "run",
}
"""What stands for a placeholder that takes no word of any kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A string of the code, with placeholders for values, and whether it is a hint: what one is to type."""

    where: str
    text: str
    is_hint: bool


@functools.cache
def texts() -> tuple[Text, ...]:
    """Return the strings that kbench may print, docstrings left out."""
    return tuple(_texts())


@functools.cache
def trees() -> dict[Path, ast.Module]:
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if not path.is_relative_to(CORPUS)]
    return {path: ast.parse(path.read_text()) for path in paths}


def _texts() -> Iterator[Text]:
    for path, tree in trees().items():
        place, nodes = path.relative_to(PACKAGE), list(ast.walk(tree))
        parts = {id(inner) for node in nodes if isinstance(node, ast.JoinedStr) for inner in node.values}
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        hints = {id(inner) for hint in _hints(nodes) for inner in ast.walk(hint)}
        for node in nodes:
            if not isinstance(node, ast.JoinedStr | ast.Constant) or id(node) in parts or id(node) in docstrings:
                continue
            is_hint, where = id(node) in hints, f"{place}:{node.lineno}"
            if isinstance(node, ast.JoinedStr):
                text = "".join(_part(part) for part in node.values)
                yield Text(where=where, text=text, is_hint=is_hint)
            elif isinstance(node.value, str):
                yield Text(where=where, text=node.value, is_hint=is_hint)


def _part(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        source = ast.unparse(part.value)
        return VALUES.get(source, "VALUE")
    assert isinstance(part, ast.Constant)
    return str(part.value)


def _hints(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """Yield what is given to errors behind their message, or anything as `hint` or `listing`."""
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        yield from call.args[1:] if name.endswith("Error") else ()
        yield from (keyword.value for keyword in call.keywords if keyword.arg in {"hint", "listing"})


def commands() -> list[tuple[str, str]]:
    """List the lines that are named and where; elsewhere than in hints, `kbench run` is a name and no line to type."""
    found = [(line, one) for one in texts() for line in COMMAND.findall(one.text)]
    lines = {line: one.where for line, one in found if one.is_hint or line.removeprefix("kbench ") not in COMMANDS}
    fixes = {line: one.code for one in EXPLANATIONS.values() for line in COMMAND.findall(one.fix)}
    return sorted({**lines, **fixes}.items())


@functools.cache
def command_of(name: str) -> typer.core.TyperGroup:
    return typer.main.get_command(build_app(name))


def typed(line: str) -> None:
    """Parse a command line as it stands, and run nothing of it."""
    _, *words = [VALUES.get(word, word) for word in shlex.split(line)]
    context = None
    command = command_of(words[0])
    while True:
        context = command.make_context("kbench", list(words), parent=context)
        rest = [*context._protected_args, *context.args]  # where a group keeps the name of its command
        if not hasattr(command, "resolve_command"):
            return
        _, command, words = command.resolve_command(context, rest)


def test_named_commands_can_be_typed():
    wrong = {}
    for line, where in commands():
        try:
            typed(line)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - typer's own, and what a line of any kind may raise
            wrong[f"{where} {line}"] = repr(error)
    assert not wrong
    assert commands()


def test_named_options_exist():
    known = set()
    for name in COMMANDS:
        one = command_of(name).commands[name]
        for command in (one, *getattr(one, "commands", {}).values()):
            known |= {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    named = {(option, one.where) for one in texts() for option in OPTION.findall(one.text)}
    assert not [
        f"{where}: {option}" for option, where in sorted(named) if option not in known | {"--help", "--version"}
    ]


@pytest.mark.parametrize("line", ["kbench profile", "kbench verify PROBLEM --sanitise", "kbench rnu PROBLEM"])
def test_a_line_that_cannot_be_typed_is_found(line):
    with pytest.raises(Exception, match=r"Missing parameter|No such option|No such command"):
        typed(line)


def raised() -> Iterator[tuple[str, str, str]]:
    """Yield the place, the text and the hint of every error of `core.errors` that is raised, as the code has them."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            call = node.exc if isinstance(node, ast.Raise) else None
            if not isinstance(call, ast.Call) or not call.args:
                continue
            if getattr(call.func, "attr", getattr(call.func, "id", "")) in ERRORS:
                hints = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "hint")]
                hint = ast.unparse(hints[0]) if hints else ""
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", ast.unparse(call.args[0]), hint


def table() -> str:
    """Return all codes and errors, one a line, for a person to read: `print(table())` in a shell."""
    codes = [f"{one.kind} {one.code}: {one.meaning} -> {one.fix}" for one in EXPLANATIONS.values()]
    return "\n".join([*codes, *(f"{where}: {text} -> {hint}" for where, text, hint in raised())])


@pytest.mark.parametrize(
    "one", [one for one in EXPLANATIONS.values() if one.kind != "word"], ids=lambda one: f"{one.kind} {one.code}"
)
def test_a_code_has_a_meaning_and_a_next_step(one: Explanation) -> None:
    assert re.fullmatch(r"\S.{10,200}[.]" if one.kind != "flag" else r"\S.{10,200}[^.]", one.meaning), "one sentence"
    assert re.fullmatch(r"(?!(?:the|an?|this|no) )\S.{5,159}[.]", one.fix, re.I), "one step, which begins with a verb"
    assert [other for other in EXPLANATIONS.values() if (other.kind, other.meaning) == (one.kind, one.meaning)] == [one]


def test_an_error_has_a_hint() -> None:
    assert len([where for where, _, hint in raised() if not hint]) <= WITHOUT_A_HINT
    assert len(table().splitlines()) > len(EXPLANATIONS) + 150, (
        "the search misses some: are errors made in another way?"
    )
