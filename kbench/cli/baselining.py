"""What the commands of `kbench baseline` do with their flags."""

from kbench.cli.baseline import AcceptFlags, SetFlags, ShowFlags
from kbench.cli.output import Format
from kbench.cli.saved import find_run
from kbench.core.errors import ExitCode, UsageError
from kbench.plugins.source import did_you_mean
from kbench.report import csvout
from kbench.report.document import render_document
from kbench.report.table import Column, one_line, render_markdown_table, render_table
from kbench.storage import baselines
from kbench.storage.results import Run

TITLES = ("baseline", "device", "problem", "commit", "solutions", "cases")


def show(flags: ShowFlags) -> int:
    """Show all baselines and accepted slow-downs."""
    output = flags.output()
    root = (flags.results or flags.settings().results) / "baselines"
    found = baselines.list_baselines(root)
    gpus = dict.fromkeys(summary.gpu for summary in found)
    accepted = [(gpu, one) for gpu in gpus for one in baselines.load_acceptances(gpu, root)]
    columns = [Column(title=title, wraps=title in {"solutions", "cases"}) for title in TITLES]
    cells = [[s.name, s.gpu, s.problem, s.git_commit[:10], " ".join(s.solutions), " ".join(s.cases)] for s in found]
    match output.format:
        case Format.JSON:
            pairs = [{"device": gpu, "acceptance": one} for gpu, one in accepted]
            output.data(render_document("baseline", status="ok", results=found, accepted=pairs))
        case Format.CSV:
            output.data(csvout.render_cells([column.title for column in columns], cells))
        case Format.MD:
            output.data(render_markdown_table(columns, cells))
        case Format.TEXT if cells:
            lines = [
                f"accepted on {gpu}: {one.problem}/{one.solution}/{one.case}, "
                f"{100 * one.up_to:.3g} % slower until {one.until}: {one_line(one.reason)}"
                for gpu, one in accepted
            ]
            output.data("\n".join([render_table(columns, cells, indent="", width=output.width), *lines]))
        case Format.TEXT:
            output.note("no baseline yet\n\nhint: `kbench baseline set @latest`")
    return ExitCode.OK


def set_(flags: SetFlags) -> int:
    """Make a run the baseline of its problem and device model."""
    settings = flags.settings()
    folder = flags.results or settings.results
    run = find_run(flags.run, folder, settings)
    path = baselines.set_baseline(run, flags.name or settings.gate.baseline, folder / "baselines")
    flags.output().written("baseline", path, f"`git add {path.parent}`, so that a change of the baseline is reviewed")
    return ExitCode.OK


def accept(flags: AcceptFlags) -> int:
    """Accept a slow-down of one case until a date."""
    settings = flags.settings()
    folder = flags.results or settings.results
    run = find_run(flags.run, folder, settings)
    problem, solution, case = _find_case(flags.case, run)
    path = baselines.accept(
        baselines.Acceptance(
            problem=problem,
            solution=solution,
            case=case,
            up_to=flags.up_to,
            until=flags.until,
            reason=flags.reason,
        ),
        run.rows[0].gpu_name,
        folder / "baselines",
    )
    flags.output().written("baseline", path, f"`git add {path}`, so that what was accepted is reviewed")
    return ExitCode.OK


def _find_case(text: str, run: Run) -> tuple[str, str, str]:
    known = {f"{row.problem}/{row.solution}/{row.case}": (row.problem, row.solution, row.case) for row in run.rows}
    matches = [name for name in known if name == text or name.endswith(f"/{text}")]
    if len(matches) > 1:
        raise UsageError(f"`{text}` is the end of {' and '.join(matches)}", "write the whole of one of them")
    if not matches:
        raise UsageError(f"{run.name} has no case `{text}`", did_you_mean(text, list(known)))
    return known[matches[0]]
