"""`kbench new`: a file to start from, which fails its own verification until one function is filled in."""

import ast
import re
import shlex
from pathlib import Path
from string import Template
from typing import Literal

import typer

from kbench.catalog import registry
from kbench.catalog.places import BUILTINS
from kbench.catalog.registry import Entry
from kbench.cli import shared_flags
from kbench.cli.command import Command, Group
from kbench.cli.options import DocumentFlags, argument, command, option
from kbench.core.errors import ExitCode, MachineError, UsageError
from kbench.storage.csvfile import make_folder
from kbench.storage.runfiles import shown_path

TEMPLATES = Path(__file__).with_name("templates")
"""One for a problem, and one for each language of a solution. Each lacks one function."""
MODEL = '''class ModelNew(nn.Module):
    """Takes the constructor arguments of the problem's `Model` and has its parameters by the same names."""

$constructor
    def forward(self, $arguments):'''
Language = Literal["cuda", "cuda-torch", "triton", "cute", "tilelang", "helion", "cpp", "torch"]
LANGUAGE_HELP = "Language of the solution; cuda-torch, cute, tilelang and helion were not tried on a GPU yet"


class _ProblemFlags(DocumentFlags):
    name: str = argument("NAME", "Name of the problem, a Python identifier")
    folder: Path = shared_flags.folder("Folder to write to", default=Path())


class _SolutionFlags(DocumentFlags):
    problem: str = shared_flags.problem()
    name: str = argument("NAME", "Name of the solution")
    language: Language = option("--language", LANGUAGE_HELP, default="cuda")
    folder: Path | None = shared_flags.folder("Folder to write to (default: beside the problem)")


@command(_ProblemFlags)
def problem(flags: _ProblemFlags) -> int:
    """Write a problem file to start from."""
    name = _checked(flags.name)
    path = flags.folder / f"{name}.py"
    typed = shlex.quote(str(path))
    steps = f"`kbench run {typed} eager` and `kbench new solution {typed} NAME`"
    text = Template(_template("problem.py.txt")).substitute(name=name)
    return _write(flags, path, text, f"fill in `Model.forward`, then {steps}")


@command(_SolutionFlags)
def solution(flags: _SolutionFlags) -> int:
    """Write a solution file to start from."""
    owner = registry.find_problem(flags.problem, flags.settings())
    name = _checked(flags.name)
    if name in BUILTINS:
        raise UsageError(f"every problem has a solution named `{name}` already", "choose another name")
    shipped = owner.origin == "kbench"
    beside = Path("solutions") if shipped else owner.path.parent / "solutions"
    path = Path(shown_path((flags.folder or beside / owner.name) / f"{name}.py"))
    line = shlex.join(["kbench", "run", flags.problem, str(path)])
    return _write(flags, path, solution_text(owner, flags.language), f"fill in the kernel, then `{line}`")


def _checked(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise UsageError(f"invalid name: `{name}`", "use letters, digits and underscores, a letter first")
    return name


def _write(flags: DocumentFlags, path: Path, text: str, hint: str) -> int:
    write_new(path, text)
    flags.output().written("new", path, hint)
    return ExitCode.OK


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist yet. Raises UsageError where it does, MachineError."""
    make_folder(path, "choose a folder with `--in`")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists already", "choose another name, or `--in` another folder") from None
    except OSError as error:
        raise MachineError(f"{path} cannot be written: {error.strerror}", "choose a folder with `--in`") from error


def solution_text(owner: Entry, language: str) -> str:
    """Write a solution file for the problem `owner`, with its constructor and without a kernel."""
    tree = owner.parsed.tree
    model = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"), None)
    forward = _method(model, "forward")
    arguments = ([each.arg for each in forward.args.args[1:]] if forward is not None else []) or ["x"]
    template = _with_imports(_template(f"{language}.py.txt").replace("$model", MODEL), tree)
    text = Template(template).substitute(
        problem=owner.name,
        library=f"new_{owner.name}_{language.replace('-', '_')}",
        arguments=", ".join(arguments),
        first=arguments[0],
        constructor=_constructor(model),
    )
    return text.replace("\n\n\n\n", "\n\n\n")


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _method(model: ast.ClassDef | None, name: str) -> ast.FunctionDef | None:
    body = model.body if model is not None else []
    return next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == name), None)


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


app = typer.Typer(cls=Group, rich_markup_mode=None)
app.command("problem", cls=Command)(problem)
app.command("solution", cls=Command)(solution)
