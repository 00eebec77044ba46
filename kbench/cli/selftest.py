"""`kbench selftest`: show that the judge catches attacks and passes honest solutions."""

import datetime
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.cli.options import OutputFlags, argument, command, option, switch
from kbench.cli.output import Output
from kbench.core.errors import InternalError, MachineError
from kbench.selftest import corpus
from kbench.storage.csvfile import replace_file

if TYPE_CHECKING:
    from kbench.selftest.session import SelftestReport


def complete(incomplete: str) -> list[str]:
    """Complete a fixture's name."""
    folders = (corpus.SHIPPED / "cheats", corpus.SHIPPED / "honest")
    names = [path.stem for folder in folders for path in folder.glob("[!_]*.py")]
    return sorted(name for name in names if name.startswith(incomplete))


TELLS_EVERY = 20
"""Chosen. Fixtures between two estimates of the time left."""
ELSEWHERE = "write elsewhere with `--save DIR`"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestFlags(OutputFlags):
    """Flags of `kbench selftest`."""

    names: list[str] | None = argument("NAME", "Fixtures to judge (default all)", default=None, autocompletion=complete)
    device: str = option("--device", "auto, cpu, cuda or cuda:INDEX", default="auto")
    fast: bool = switch("--fast", "Only the fixtures that CI runs")
    jobs: int = option("--jobs", "Parallel builds and verdicts", default=3, min=1)
    corpus: Path | None = option("--corpus DIR", "Another corpus: a folder with cheats, honest and problems")
    save: Path | None = option("--save DIR", "Also write CSV and JSON to this folder")


@command(SelftestFlags)
def main(flags: SelftestFlags) -> int:
    """Prove that attacks are caught and honest solutions pass."""
    from kbench.report import selftest as rendering  # imports numpy, which completion does not need

    output = flags.output()
    report = _follow(flags, output)
    if flags.save is not None:
        _save(report, flags.save)
    output.show(
        text=lambda: rendering.render_selftest(report, verbosity=output.verbosity),
        json=lambda: rendering.render_json(report),
        csv=lambda: rendering.render_csv(report),
        md=lambda: rendering.render_markdown(report),
    )
    return report.exit_code


def _follow(flags: SelftestFlags, output: Output) -> "SelftestReport":
    """Show one line per fixture while they are judged."""
    from kbench.report.selftest import line
    from kbench.report.waiting import render_left
    from kbench.selftest import session as verb
    from kbench.selftest.session import Checked, SelftestReport, Started

    settings = {} if flags.corpus is None else {"folder": flags.corpus}
    events = verb.selftest(
        device=flags.device, fast=flags.fast, names=tuple(flags.names or ()), jobs=flags.jobs, **settings
    )
    total = count = 0
    began = time.monotonic()
    with closing(events):
        for event in events:
            match event:
                case Started(device=device, fixtures=fixtures):
                    total = len(fixtures)
                    output.note(f"{total} fixtures on {device}")
                case Checked():
                    count += 1
                    output.note(f"{count:>3}/{total}  {line(event)}")
                    if count % TELLS_EVERY == 0 and count < total:
                        output.note(f"         {render_left(count, total, time.monotonic() - began)}")
                case SelftestReport():
                    return event
    raise InternalError("the selftest ended without a report")


def _save(report: "SelftestReport", folder: Path) -> None:
    """Write `<UTC time>-<device>.csv` and `.json`."""
    from kbench.report import selftest as rendering

    now = datetime.datetime.now(datetime.UTC)
    stem = f"{now:%Y%m%dT%H%M%SZ}-{report.device}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot create {folder}: {error.strerror}") from error
    replace_file(folder / f"{stem}.csv", rendering.render_csv(report) + "\n", ELSEWHERE)
    replace_file(folder / f"{stem}.json", rendering.render_json(report) + "\n", ELSEWHERE)
