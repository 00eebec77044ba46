"""`kbench profile`: why a solution is slow."""

from contextlib import closing
from pathlib import Path

from kbench.catalog import registry
from kbench.catalog.constant_text import parse_overrides
from kbench.cli import completion, shared_flags
from kbench.cli.options import OutputFlags, argument, command, option
from kbench.cli.run import code_of_statuses
from kbench.core.model import Failed, Status


class _ProfileFlags(OutputFlags):
    problem: str = shared_flags.problem()
    solutions: list[str] = argument("SOLUTION", "Solutions: names or paths", autocompletion=completion.solutions)
    case: list[str] | None = shared_flags.cases(autocompletion=completion.cases)
    set_: list[str] | None = shared_flags.set_()
    device: str | None = shared_flags.device()
    ncu: Path | None = option("--ncu FILE", "Save a report of Nsight Compute (hardware counters) as FILE.ncu-rep")
    allow_tf32: bool = shared_flags.allow_tf32()
    trusted: bool = shared_flags.trusted()


@command(_ProfileFlags)
def main(flags: _ProfileFlags) -> int:
    """Explain why a solution is slow: kernels, limits, bottleneck."""
    from kbench import profile as verb  # imports much that completion does not need
    from kbench.cli.progress import progress_for
    from kbench.engine.options import choose_solutions, options_from
    from kbench.report import profile as rendering

    output, settings = flags.output(), flags.settings()
    options = options_from(
        settings,
        device=flags.device,
        cases=tuple(flags.case or ()),
        overrides=parse_overrides(flags.set_ or []),
        allow_tf32=flags.allow_tf32,
        trusted=flags.trusted,
        save=False,
    )
    problem = registry.find_problem(flags.problem, settings)
    chosen = registry.with_unique_names(choose_solutions(problem, flags.solutions, options.device, settings))
    found: list[verb.Explained] = []
    stream = verb.profile(problem, chosen, options, report=flags.ncu)
    with progress_for(output) as show, closing(stream) as events:
        for event in events:
            if isinstance(event, verb.Explained):
                found.append(event)
            else:
                show(event)
    code = code_of_statuses(one.outcome.status if isinstance(one.outcome, Failed) else Status.PASSED for one in found)
    output.rendered(rendering, problem.name, found, exit_code=int(code))
    return code
