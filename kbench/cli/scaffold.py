"""The files that `kbench new` writes, from `kbench/cli/templates`. Each is complete except for one function."""

import ast
from pathlib import Path
from string import Template

from kbench.plugins import source
from kbench.plugins.registry import Entry

TEMPLATES = Path(__file__).with_name("templates")
"""One for a problem, one for each language of a solution, and one for agents."""


def problem(name: str) -> str:
    """Write a problem file without its reference."""
    return Template(template("problem.py.txt")).substitute(name=name)


def solution(owner: Entry, language: str) -> str:
    """Write a solution file for the problem `owner`, with its constructor and without a kernel."""
    tree = source.parse(owner.path).tree
    model = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"), None)
    arguments = _arguments(model) or ["x"]
    text = Template(_with_imports(template(f"{language}.py.txt"), tree)).substitute(
        problem=owner.name,
        library=f"new_{owner.name}_{language.replace('-', '_')}",
        arguments=", ".join(arguments),
        first=arguments[0],
        constructor=_constructor(model),
    )
    return text.replace("\n\n\n\n", "\n\n\n")


def template(name: str) -> str:
    """Read a template; that of the page for agents has nothing to fill in."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _method(model: ast.ClassDef | None, name: str) -> ast.FunctionDef | None:
    body = model.body if model is not None else []
    return next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def _arguments(model: ast.ClassDef | None) -> list[str]:
    forward = _method(model, "forward")
    return [argument.arg for argument in forward.args.args[1:]] if forward is not None else []


def _constructor(model: ast.ClassDef | None) -> str:
    """Take over the reference's constructor, so that arguments and parameter names agree."""
    function = _method(model, "__init__")
    if function is None:
        return ""
    return "\n".join("    " + line for line in ast.unparse(function).splitlines()) + "\n"


def _with_imports(template: str, tree: ast.Module) -> str:
    """Join a template's imports with those of the problem, which the constructor may need."""
    head, devices, rest = template.partition("\nDEVICES")
    summary, _, own = head.partition("\n\n")
    taken = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    lines = sorted({*own.splitlines(), *taken}, key=lambda line: (line.startswith("from"), line))
    return "\n".join([summary, "", *lines, "", f"{devices.lstrip()}{rest}"])
