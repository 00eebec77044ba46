"""`kbench selftest`: show that the judge catches attacks and passes honest solutions."""

import datetime
import shlex
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from kbench.cli import shared_flags
from kbench.cli.options import OutputFlags, argument, command, option
from kbench.cli.output import Ending, Output
from kbench.core.errors import InternalError, KbenchError, UsageError
from kbench.devices.selection import choose_devices
from kbench.report import selftest as rendering
from kbench.report import units
from kbench.selftest import journal as kept
from kbench.selftest.checks import SelftestReport
from kbench.selftest.fixtures import CORPUS, read_corpus
from kbench.selftest.journal import SelftestArguments, SelftestJournal, SelftestRecord
from kbench.storage import journal_file
from kbench.storage.csvfile import replace_file


def complete(incomplete: str) -> list[str]:
    """Complete a fixture's name."""
    return sorted(fixture.name for fixture in read_corpus() if fixture.name.startswith(incomplete))


JOBS = 3
ALL = "all"


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
    flags, journal = _begin(flags)
    report, error = _follow(flags, journal, output)
    if journal is not None and error is None:
        _save(report, journal.path)
    code = report.exit_code if error is None else error.exit_code
    output.rendered(rendering, report, error=error)
    if error is not None and not output.wants_json:
        output.error(error)
    return code


def _begin(flags: _SelftestFlags) -> tuple[_SelftestFlags, SelftestJournal | None]:
    if flags.resume is not None:
        if flags.names or flags.corpus:
            message = f"`--resume {flags.resume}` judges what that selftest was started with"
            raise UsageError(message, "leave out names and `--corpus`")
        path = journal_file.find("unfinished selftest", flags.resume, flags.save or Path())
        record = kept.read(path)
        started, kind = record.arguments, choose_devices(flags.devices)[0].kind
        if kind != started.device:
            raise UsageError(f"{path} is of {started.device}, and this is {kind}", f"add `--devices {started.device}`")
        flags = replace(flags, names=list(started.names), corpus=started.corpus)
        return flags, SelftestJournal(path, record)
    if flags.save is None:
        return flags, None
    kind = choose_devices(flags.devices)[0].kind
    place = flags.corpus.absolute() if flags.corpus is not None else None
    started = SelftestArguments(device=kind, names=tuple(flags.names or ()), corpus=place)
    stem = f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}-{kind}"
    return flags, SelftestJournal(flags.save / f"{stem}{journal_file.SUFFIX}", SelftestRecord(arguments=started))


def _follow(
    flags: _SelftestFlags, journal: SelftestJournal | None, output: Output
) -> tuple[SelftestReport, KbenchError | None]:
    from kbench.selftest import session as verb

    report: SelftestReport | None = None
    began = time.monotonic()
    names, folder = tuple(flags.names or ()), flags.corpus or CORPUS
    judging = verb.selftest(devices=flags.devices, names=names, jobs=flags.jobs, folder=folder, journal=journal)
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
    return report, None if ending.error is None else _with_way_on(ending.error, report, journal, flags)


def _with_way_on(
    ended: KbenchError, report: SelftestReport, journal: SelftestJournal | None, flags: _SelftestFlags
) -> KbenchError:
    """Add to what ended a selftest early what is kept, and the command that goes on."""
    done = f"{len(report.checks)} of {report.fixtures} fixtures"
    if journal is None:
        kept, hint = f"{done} were judged, and none is kept", "`--save DIR` keeps what is done"
    else:
        more = [] if flags.devices == ALL else ["--devices", flags.devices]
        more += [] if flags.jobs == JOBS else ["--jobs", str(flags.jobs)]
        words = shlex.join([str(journal.path).removesuffix(journal_file.SUFFIX), *more])
        kept, hint = f"{done} are kept in {journal.path}", f"`kbench selftest --resume {words}` goes on"
    return KbenchError(f"{ended.message}; {kept}", f"{ended.hint}; {hint}" if ended.hint else hint, ended.exit_code)


def _save(report: SelftestReport, journal: Path) -> None:
    stem = journal.name.removesuffix(journal_file.SUFFIX)
    way_out = f"move {journal} to another folder and `--resume` it there"
    replace_file(journal.with_name(f"{stem}.csv"), rendering.render_csv(report) + "\n", way_out)
    replace_file(journal.with_name(f"{stem}.json"), rendering.render_json(report) + "\n", way_out)
    journal.unlink(missing_ok=True)
