"""`kbench baseline`: show and set baselines. The files are for git."""

from pathlib import Path

import typer

from kbench.cli import shared_flags
from kbench.cli.command import Command, Group
from kbench.cli.options import DocumentFlags, OutputFlags, command
from kbench.cli.output import Format
from kbench.core.errors import ExitCode
from kbench.report.table import table
from kbench.storage.saved_runs import find_run


class _BaselineShowFlags(OutputFlags):
    results: Path | None = shared_flags.results()


class _SetFlags(DocumentFlags):
    run: str = shared_flags.run()
    name: str | None = shared_flags.name("Name of the baseline (default main)")
    results: Path | None = shared_flags.results()


@command(_BaselineShowFlags)
def show(flags: _BaselineShowFlags) -> int:
    """Show all baselines."""
    from kbench.storage import baselines  # imports numpy, which completion does not need

    output = flags.output()
    root = (flags.results or flags.settings().results) / "baselines"
    found = baselines.list_baselines(root)
    rows = [
        {
            "baseline": path.parts[-2],
            "device": path.parts[-3],
            "problem": own[0].problem,
            "commit": own[0].git_commit[:10],
            "solutions": " ".join(dict.fromkeys(row.solution for row in own)),
            "cases": " ".join(dict.fromkeys(row.case for row in own)),
        }
        for path, own in found.items()
    ]
    shown = table(rows, wraps={"solutions", "cases"})
    if not rows and output.format is Format.TEXT:
        output.note("no baseline yet\n\nhint: `kbench baseline set @latest`")
        return ExitCode.OK
    output.records("baseline", shown, rows)
    return ExitCode.OK


@command(_SetFlags)
def set_(flags: _SetFlags) -> int:
    """Make a run the baseline of its problem and device model."""
    from kbench.storage import baselines

    settings = flags.settings()
    folder = flags.results or settings.results
    run = find_run(flags.run, folder)
    path = baselines.set_baseline(run, flags.name or settings.gate.baseline, folder / "baselines")
    flags.output().written("baseline", path, f"`git add {path.parent}`, so that a change of the baseline is reviewed")
    return ExitCode.OK


app = typer.Typer(cls=Group, rich_markup_mode=None)
app.command("show", cls=Command)(show)
app.command("set", cls=Command)(set_)
