"""`kbench run` and `kbench verify`: what is right, and how fast."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kbench.cli import completion
from kbench.cli.options import Crosscheck, Mode, OutputFlags, command, parse_duration, parse_share
from kbench.core.levels import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyFlags(OutputFlags):
    """What `kbench verify` can be told."""

    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="Name or path", autocompletion=completion.problems)]
    solutions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOLUTION]...",
            help="Names or paths (all that fit the device)",
            autocompletion=completion.solutions,
        ),
    ] = None
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case", metavar="GLOB", help="Glob over case names; repeatable", autocompletion=completion.cases
        ),
    ] = None
    entry: Annotated[
        str | None,
        typer.Option("--entry", metavar="NAME", help="Class or function of a solution's file to judge (ModelNew)"),
    ] = None
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override a constant of the problem; repeatable"),
    ] = None
    device: Annotated[str | None, typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:INDEX")] = (
        None
    )
    import_timeout: Annotated[
        float | None,
        typer.Option("--import-timeout", metavar="SECONDS", parser=parse_duration, help="Time to import (60s)"),
    ] = None
    build_timeout: Annotated[
        float | None,
        typer.Option("--build-timeout", metavar="SECONDS", parser=parse_duration, help="Time to build (300s)"),
    ] = None
    call_timeout: Annotated[
        float | None,
        typer.Option(
            "--call-timeout",
            metavar="SECONDS",
            parser=parse_duration,
            help="Time for a call (10s, 50 x reference)",
        ),
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", parser=parse_duration, help="Time for everything (unlimited)"),
    ] = None
    isolation: Annotated[
        int | None,
        typer.Option("--isolation", metavar="RUNG", min=0, help="Refuse a weaker rung of the sandbox"),
    ] = None
    trusted: Annotated[bool, typer.Option("--trusted", help="The solution is no adversary")] = False
    level: Annotated[
        Level | None, typer.Option("--level", help="What a solution must be right for (module)", case_sensitive=False)
    ] = None
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="CODE",
            help="A property that it may lack all the same; repeatable",
            autocompletion=completion.properties,
        ),
    ] = None
    backward: Annotated[bool, typer.Option("--backward", help="Verify gradients too")] = False
    require_custom: Annotated[
        bool, typer.Option("--require-custom", help="Fail a solution that launches no kernel of its own")
    ] = False
    sanitize: Annotated[
        bool | None,
        typer.Option(
            "--sanitize/--no-sanitize", help="Run compute-sanitizer first (its memcheck after an illegal access)"
        ),
    ] = None
    allow_tf32: Annotated[bool, typer.Option("--allow-tf32", help="Let both sides use TF32")] = False
    eval_mode: Annotated[bool, typer.Option("--eval", help="Run both sides in eval mode, as many benchmarks do")] = (
        False
    )
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the saved run")] = None
    no_save: Annotated[bool, typer.Option("--no-save", help="Write no files")] = False
    results: Annotated[Path | None, typer.Option("--results", metavar="DIR", help="Folder of the results")] = None
    strict: Annotated[bool, typer.Option("--strict", help="Exit 4 when a result is inconclusive")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlags(VerifyFlags):
    """What `kbench run` can be told beyond `kbench verify`."""

    processes: Annotated[
        int | None, typer.Option("--processes", metavar="N", min=1, help="Processes to begin with (3)")
    ] = None
    max_processes: Annotated[
        int | None, typer.Option("--max-processes", metavar="N", min=1, help="Processes at most (10)")
    ] = None
    precision: Annotated[
        float | None,
        typer.Option(
            "--precision",
            metavar="SHARE",
            parser=parse_share,
            help="Half-width of the interval to reach (0.3%)",
        ),
    ] = None
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="SECONDS",
            parser=parse_duration,
            help="Time to measure each solution and case (20s)",
        ),
    ] = None
    quick: Annotated[bool, typer.Option("--quick", help="One process; no interval across processes")] = False
    mode: Annotated[Mode | None, typer.Option("--mode", help="What precedes a timed call (cold)")] = None
    lock_clocks: Annotated[
        int | None,
        typer.Option("--lock-clocks", metavar="MHZ", min=1, help="Lock the SM clock while measuring (privileged)"),
    ] = None
    crosscheck: Annotated[
        Crosscheck | None, typer.Option("--crosscheck", help="Take kernel times from the profiler as well")
    ] = None


@command(RunFlags)
def run(flags: RunFlags) -> int:
    """Verify, then time, one or more solutions of a problem."""
    from kbench.cli import running  # brings numpy, which completing a word does without

    return running.run("run", flags, timing=flags)


@command(VerifyFlags)
def verify(flags: VerifyFlags) -> int:
    """Verify only."""
    from kbench.cli import running

    return running.run("verify", flags, timing=None)
