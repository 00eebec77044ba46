"""`kbench new`: a file to start from, which fails its own verification until one function is filled in."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer

from kbench.cli import scaffold, shared_flags
from kbench.cli.command import Command, Group
from kbench.cli.options import DocumentFlags, argument, command, option
from kbench.core.errors import ExitCode, MachineError, UsageError
from kbench.plugins import registry
from kbench.plugins.places import BUILTINS
from kbench.storage.runfiles import shown_path

Language = Literal["cuda", "cuda-torch", "triton", "cute", "tilelang", "helion", "cpp", "torch"]
LANGUAGE_HELP = "Language of the solution; cuda-torch, cute, tilelang and helion were not tried on a GPU yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemFlags(DocumentFlags):
    """Flags of `kbench new problem`."""

    name: str = argument("NAME", "Name of the problem, a Python identifier")
    folder: Path = option("--in DIR", "Folder to write to", default=Path())


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionFlags(DocumentFlags):
    """Flags of `kbench new solution`."""

    problem: str = shared_flags.problem()
    name: str = argument("NAME", "Name of the solution")
    language: Language = option("--language", LANGUAGE_HELP, default="cuda")
    folder: Path | None = option("--in DIR", "Folder to write to (default: beside the problem)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsFlags(DocumentFlags):
    """Flags of `kbench new agents`."""

    folder: Path = option("--in DIR", "Folder to write to", default=Path())


@command(ProblemFlags)
def problem(flags: ProblemFlags) -> int:
    """Write a problem file to start from."""
    name = _checked(flags.name)
    path = flags.folder / f"{name}.py"
    typed = shlex.quote(str(path))
    steps = f"`kbench run {typed} eager` and `kbench new solution {typed} NAME`"
    return _write(flags, path, scaffold.problem(name), f"fill in `Model.forward`, then {steps}")


@command(SolutionFlags)
def solution(flags: SolutionFlags) -> int:
    """Write a solution file to start from."""
    owner = registry.find_problem(flags.problem, flags.settings())
    name = _checked(flags.name)
    if name in BUILTINS:
        raise UsageError(f"every problem has a solution named `{name}` already", "choose another name")
    shipped = owner.origin == "kbench"
    beside = Path("solutions") if shipped else owner.path.parent / "solutions"
    path = Path(shown_path((flags.folder or beside / owner.name) / f"{name}.py"))
    line = shlex.join(["kbench", "run", flags.problem, str(path)])
    return _write(flags, path, scaffold.solution(owner, flags.language), f"fill in the kernel, then `{line}`")


@command(AgentsFlags)
def agents(flags: AgentsFlags) -> int:
    """Write an AGENTS.md: how an agent checks kernels in this repository."""
    return _write(
        flags, flags.folder / "AGENTS.md", scaffold.template("AGENTS.md"), "add what is particular to this repository"
    )


def _checked(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise UsageError(f"invalid name: `{name}`", "use letters, digits and underscores, a letter first")
    return name


def _write(flags: DocumentFlags, path: Path, text: str, hint: str) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists already", "choose another name, or `--in` another folder") from None
    except OSError as error:
        raise MachineError(f"{path} cannot be written: {error.strerror}", "choose a folder with `--in`") from error
    flags.output().written("new", path, hint)
    return ExitCode.OK


app = typer.Typer(cls=Group, rich_markup_mode=None)
app.command("problem", cls=Command)(problem)
app.command("solution", cls=Command)(solution)
app.command("agents", cls=Command)(agents)
