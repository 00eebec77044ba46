"""`kbench selftest`: the judge judged, by attacks to catch and honest solutions to pass."""

import datetime
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kbench import selftest as verb
from kbench.cli.options import OutputFlags, command
from kbench.cli.output import Format, Output
from kbench.core.errors import ExitCode, InternalError, MachineError
from kbench.plugins import corpus
from kbench.report import csvout
from kbench.report.document import render_document
from kbench.report.selftest import line, render_markdown, render_selftest, verdict
from kbench.selftest import Checked, Report, Started
from kbench.storage.csvfile import replace_file


def complete(incomplete: str) -> list[str]:
    """Complete a fixture's name."""
    folders = (corpus.SHIPPED / "cheats", corpus.SHIPPED / "honest")
    names = [path.stem for folder in folders for path in folder.glob("[!_]*.py")]
    return sorted(name for name in names if name.startswith(incomplete))


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestFlags(OutputFlags):
    """What `kbench selftest` can be told."""

    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Fixtures (all)", autocompletion=complete)
    ] = None
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:INDEX")] = "auto"
    fast: Annotated[bool, typer.Option("--fast", help="The quick half, as in CI")] = False
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Builds and judgements side by side")] = 3
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", metavar="DIR", help="Another corpus: cheats, honest, problems"),
    ] = None
    save: Annotated[Path | None, typer.Option("--save", metavar="DIR", help="Also write CSV and JSON there")] = None


@command(SelftestFlags)
def main(flags: SelftestFlags) -> int:
    """Prove that attacks are caught and honest solutions pass."""
    output = flags.output()
    report = _follow(flags, output)
    code = ExitCode.NEGATIVE if report.misses else ExitCode.OK
    if flags.save is not None:
        _save(report, code, flags.save)
    match output.format:
        case Format.JSON:
            output.data(_document(report, code))
        case Format.CSV:
            output.data(csvout.render_records(report.checks, Checked))
        case Format.MD:
            output.data(render_markdown(report))
        case Format.TEXT:
            output.data(render_selftest(report, verbosity=output.verbosity))
    return code


def _follow(flags: SelftestFlags, output: Output) -> Report:
    """Show one line per fixture while they are judged."""
    settings = {} if flags.corpus is None else {"folder": flags.corpus}
    events = verb.selftest(
        device=flags.device, fast=flags.fast, names=tuple(flags.names or ()), jobs=flags.jobs, **settings
    )
    total = count = 0
    with closing(events):
        for event in events:
            match event:
                case Started(device=device, fixtures=fixtures):
                    total = len(fixtures)
                    output.note(f"{total} fixtures on {device}")
                case Checked():
                    count += 1
                    output.note(f"{count:>3}/{total}  {line(event)}")
                case Report():
                    return event
    raise InternalError("the selftest ended without a report")


def _document(report: Report, code: ExitCode) -> str:
    return render_document(
        "selftest",
        status="passed" if code is ExitCode.OK else "failed",
        reason=verdict(report),
        exit_code=code,
        findings=[{"kind": "miss", "solution": miss.name, "message": miss.complaint} for miss in report.misses],
        device=report.device,
        device_name=report.device_name,
        isolation=report.isolation,
        torch=report.torch,
        elapsed_s=report.elapsed_s,
        detection_rate=report.detection_rate,
        false_positive_rate=report.false_positive_rate,
        classes=[
            {
                "class": tally.category,
                "honest": tally.honest,
                "checks": tally.checks,
                "right": tally.right,
                "seconds_per_check": tally.seconds_per_check,
            }
            for tally in report.tallies
        ],
        results=report.checks,
    )


def _save(report: Report, code: ExitCode, folder: Path) -> None:
    """Write `<UTC time>-<device>.csv` and `.json`."""
    now = datetime.datetime.now(datetime.UTC)
    stem = f"{now:%Y%m%dT%H%M%SZ}-{report.device}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot create {folder}: {error.strerror}") from error
    replace_file(folder / f"{stem}.csv", csvout.render_records(report.checks, Checked) + "\n")
    replace_file(folder / f"{stem}.json", _document(report, code) + "\n")
