"""`kbench compare`: saved runs side by side, or the solutions of one run."""

from pathlib import Path

from kbench.cli import completion, shared_flags
from kbench.cli.options import OutputFlags, argument, command, option
from kbench.core.errors import ExitCode, NothingSelectedError
from kbench.core.model import Time
from kbench.storage.saved_runs import find_run


class _CompareFlags(OutputFlags):
    runs: list[str] = argument(
        "RUN", "Runs: names, paths or @latest; the first is the base", autocompletion=completion.runs
    )
    base: str | None = option("--base SOLUTION", "Solution that the others are compared with")
    case: list[str] | None = shared_flags.cases()
    time: Time | None = shared_flags.time()
    slower: float | None = shared_flags.slower()
    results: Path | None = shared_flags.results()


@command(_CompareFlags)
def main(flags: _CompareFlags) -> int:
    """Compare saved runs, or the solutions of one run.

    It exits with 0 whatever it finds; `kbench gate` fails a job.
    """
    from kbench import compare as verb  # imports numpy, which completion does not need
    from kbench.report import comparison as report

    output, settings = flags.output(), flags.settings()
    folder = flags.results or settings.results
    found = verb.compare(
        [find_run(name, folder) for name in flags.runs],
        base=flags.base,
        cases=tuple(flags.case or ()),
        time=flags.time or Time.DEVICE,
        **shared_flags.given(margin=flags.slower),
    )
    if all(case.verdict is None for case in found.cases):
        raise NothingSelectedError(
            f"there is nothing to compare `{found.base}` with",
            "`kbench run PROBLEM A B` makes a run of two solutions, `kbench compare OLD NEW` takes two runs",
        )
    output.rendered(report, report.worst_first(found))
    return ExitCode.OK
