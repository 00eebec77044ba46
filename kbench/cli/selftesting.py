"""What `kbench selftest` does with its flags."""

import datetime
from contextlib import closing
from pathlib import Path

from kbench.cli.output import Format, Output
from kbench.cli.selftest import SelftestFlags
from kbench.core.errors import ExitCode, InternalError, MachineError
from kbench.report import csvout
from kbench.report.document import render_document
from kbench.report.selftest import line, render_markdown, render_selftest, verdict
from kbench.selftest import session as verb
from kbench.selftest.session import Checked, Report, Started
from kbench.storage.csvfile import replace_file


def selftest(flags: SelftestFlags) -> int:
    """Judge the corpus, and report."""
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
