"""`kbench baseline`: show and set baselines, and accept slow-downs. The files are for git."""

from dataclasses import MISSING
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kbench.cli import completion, shared_flags
from kbench.cli.command import Command, Group
from kbench.cli.options import DocumentFlags, OutputFlags, argument, command, option
from kbench.cli.output import Format
from kbench.cli.shared_flags import parse_slowdown
from kbench.core.errors import ExitCode, UsageError, did_you_mean
from kbench.report.table import one_line, table
from kbench.storage.runfiles import LATEST
from kbench.storage.saved_runs import find_run

if TYPE_CHECKING:
    from kbench.storage.results import Run


def parse_date(text: str) -> date:
    """Read `2026-12-31`."""
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a date; write `2026-12-31`") from None


class _BaselineShowFlags(OutputFlags):
    results: Path | None = shared_flags.results()


class _SetFlags(DocumentFlags):
    run: str = shared_flags.run()
    name: str | None = shared_flags.name("Name of the baseline (default main)")
    results: Path | None = shared_flags.results()


class _AcceptFlags(DocumentFlags):
    case: str = argument("CASE", "PROBLEM/SOLUTION/CASE, or its unique ending")
    reason: str = option("--reason TEXT", "Why the slow-down is accepted", default=MISSING)
    until: date = option("--until DATE", "Last day on which it is accepted", default=MISSING, parser=parse_date)
    up_to: float = option("--up-to SHARE", "Largest slow-down that is accepted", default=MISSING, parser=parse_slowdown)
    run: str = option("--run RUN", "Run that shows the slow-down", default=LATEST, autocompletion=completion.runs)
    results: Path | None = shared_flags.results()


@command(_BaselineShowFlags)
def show(flags: _BaselineShowFlags) -> int:
    """Show all baselines and accepted slow-downs."""
    from kbench.storage import baselines  # imports numpy, which completion does not need

    output = flags.output()
    root = (flags.results or flags.settings().results) / "baselines"
    found = baselines.list_baselines(root)
    gpus = dict.fromkeys(path.parts[-3] for path in found)
    accepted = [(gpu, one) for gpu in gpus for one in baselines.load_acceptances(gpu, root)]
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
    lines = [
        f"accepted on {gpu}: {one.problem}/{one.solution}/{one.case}, "
        f"{100 * one.up_to:.3g} % slower until {one.until}: {one_line(one.reason)}"
        for gpu, one in accepted
    ]
    pairs = [{"device": gpu, "acceptance": one} for gpu, one in accepted]
    text = "\n".join([shown.text(indent="", width=output.width), *lines])
    output.records("baseline", shown, rows, lambda: text, accepted=pairs)
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


@command(_AcceptFlags)
def accept(flags: _AcceptFlags) -> int:
    """Accept a slow-down of one case until a date."""
    from kbench.storage import baselines

    settings = flags.settings()
    folder = flags.results or settings.results
    run = find_run(flags.run, folder)
    if flags.until < datetime.now(UTC).date():
        raise UsageError(f"`--until {flags.until}` is over, so nothing would be accepted", "give a later date")
    problem, solution, case = _find_case(flags.case, run)
    path = baselines.accept(
        baselines.Acceptance(
            problem=problem, solution=solution, case=case, up_to=flags.up_to, until=flags.until, reason=flags.reason
        ),
        run.rows[0].gpu_name,
        folder / "baselines",
    )
    flags.output().written("baseline", path, f"`git add {path}`, so that what was accepted is reviewed")
    return ExitCode.OK


def _find_case(text: str, run: "Run") -> tuple[str, str, str]:
    known = {"/".join(key): key for key in run.by_case()}
    matches = [name for name in known if name == text or name.endswith(f"/{text}")]
    if len(matches) > 1:
        raise UsageError(f"`{text}` matches {' and '.join(matches)}", "write one of them in full")
    if not matches:
        raise UsageError(f"{run.name} has no case `{text}`", did_you_mean(text, list(known)))
    return known[matches[0]]


app = typer.Typer(cls=Group, rich_markup_mode=None)
app.command("show", cls=Command)(show)
app.command("set", cls=Command)(set_)
app.command("accept", cls=Command)(accept)
