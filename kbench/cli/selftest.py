"""`kbench selftest`: show that the judge catches attacks and passes honest solutions."""

import datetime
import shlex
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.cli import shared_flags
from kbench.cli.options import OutputFlags, argument, command, option
from kbench.cli.output import Ending, Output
from kbench.cli.resume import OPTIONS_OF_RESUMING, arguments_of, started_with
from kbench.core.errors import InternalError, KbenchError
from kbench.devices.selection import choose_devices
from kbench.report import selftest as rendering
from kbench.report import units
from kbench.selftest.checks import KeptCheck, SelftestReport
from kbench.selftest.fixtures import CORPUS, read_corpus
from kbench.storage import journal_file
from kbench.storage.csvfile import replace_file

if TYPE_CHECKING:
    from kbench.engine.journal import Journal


def complete(incomplete: str) -> list[str]:
    """Complete a fixture's name."""
    return sorted(fixture.name for fixture in read_corpus() if fixture.name.startswith(incomplete))


JOBS = 3
ALL = "all"
RESUMING = OPTIONS_OF_RESUMING | frozenset({"devices", "jobs", "save"})
"""Flags that a resuming command sets itself; the others come from the command that was broken off."""


class _SelftestFlags(OutputFlags):
    names: list[str] | None = argument("NAME", "Fixtures to judge (default all)", default=None, autocompletion=complete)
    devices: str = shared_flags.devices(default=ALL)
    jobs: int = shared_flags.jobs("Parallel builds and verdicts on each device", default=JOBS)
    corpus: Path | None = option("--corpus DIR", "Another corpus: a folder with cheats, honest and problems")
    save: Path | None = option("--save DIR", "Write CSV and JSON to this folder; if ended early, keep what is done")
    resume: str | None = shared_flags.resume("Continue what `--save` kept, by its path or its name in --save DIR")


@command(_SelftestFlags)
def main(flags: _SelftestFlags) -> int:
    """Prove that attacks are caught and honest solutions pass."""
    output = flags.output()
    flags, keeping = _begin(flags)
    report, error = _follow(flags, keeping, output)
    if keeping is not None and error is None:
        _save(report, keeping.path)
    code = report.exit_code if error is None else error.exit_code
    output.rendered(rendering, report, error=error)
    if error is not None and not output.wants_json:
        output.error(error)
    return code


def _begin(flags: _SelftestFlags) -> "tuple[_SelftestFlags, Journal | None]":
    """Begin a selftest, or resume one: its flags, and its journal where one is kept."""
    from kbench.engine import journal  # imports numpy, which completion does not need
    from kbench.engine.journal import Header, Journal

    if flags.resume is not None:
        path, record = journal.find("selftest", flags.resume, flags.save or Path(), KeptCheck)
        return started_with(flags, record.header, flags.resume, RESUMING), Journal(path, record.header, resumed=record)
    if flags.save is None:
        return flags, None
    now = datetime.datetime.now(datetime.UTC)
    run, arguments = f"{now:%Y%m%dT%H%M%SZ}-{choose_devices(flags.devices)[0].kind}", arguments_of(flags, RESUMING)
    header = Header(run=run, started_utc=now.isoformat(timespec="seconds"), arguments=arguments, command="selftest")
    return flags, Journal(flags.save / f"{run}{journal_file.SUFFIX}", header)


def _follow(
    flags: _SelftestFlags, keeping: "Journal | None", output: Output
) -> tuple[SelftestReport, KbenchError | None]:
    from kbench.selftest import session as verb

    report: SelftestReport | None = None
    began = time.monotonic()
    names, folder = tuple(flags.names or ()), Path(flags.corpus or CORPUS)
    judging = verb.selftest(devices=flags.devices, names=names, jobs=flags.jobs, folder=folder, journal=keeping)
    with Ending() as ending, closing(judging) as reports:
        for report in reports:
            count, total = len(report.checks), report.fixtures
            if report.latest is None:
                kept = f", {count} of them kept" if flags.resume else ""
                output.note(f"{total} fixtures on {report.device}{kept}")
                continue
            left = units.time_left(count - report.kept, total - report.kept, time.monotonic() - began)
            line = f"{count:>3}/{total}  {rendering.line(report.latest)}"
            output.note(f"{line}  {left}" if count < total else line)
    if report is None:
        raise ending.error or InternalError("a selftest begins with a report")
    return report, None if ending.error is None else _with_way_on(ending.error, report, keeping, flags)


def _with_way_on(
    ended: KbenchError, report: SelftestReport, keeping: "Journal | None", flags: _SelftestFlags
) -> KbenchError:
    """Add to what ended a selftest early what is kept, and the command that goes on."""
    done = f"{len(report.checks)} of {report.fixtures} fixtures"
    if keeping is None:
        kept, hint = f"{done} were judged, and none is kept", "`--save DIR` keeps what is done"
    else:
        more = [] if flags.devices == ALL else ["--devices", flags.devices]
        more += [] if flags.jobs == JOBS else ["--jobs", str(flags.jobs)]
        words = shlex.join([str(keeping.path).removesuffix(journal_file.SUFFIX), *more])
        kept, hint = f"{done} are kept in {keeping.path}", f"`kbench selftest --resume {words}` goes on"
    return KbenchError(f"{ended.message}; {kept}", f"{ended.hint}; {hint}" if ended.hint else hint, ended.exit_code)


def _save(report: SelftestReport, journal: Path) -> None:
    stem = journal.name.removesuffix(journal_file.SUFFIX)
    way_out = f"move {journal} to another folder and `--resume` it there"
    replace_file(journal.with_name(f"{stem}.csv"), rendering.render_csv(report) + "\n", way_out)
    replace_file(journal.with_name(f"{stem}.json"), rendering.render_json(report) + "\n", way_out)
    journal.unlink(missing_ok=True)
