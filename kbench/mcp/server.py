"""The tools. Answers have a few thousand characters at most, and never a seed or an expected value."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from kbench import compare as comparing
from kbench import doctor as checkup
from kbench.api.judge import Judge
from kbench.api.options import Options
from kbench.catalog import registry
from kbench.core.errors import KbenchError, did_you_mean
from kbench.core.explain import EXPLANATIONS
from kbench.core.explain import explain as explanation_of
from kbench.core.version import __version__
from kbench.serve.answers import answer_of
from kbench.storage.saved_runs import find_run
from kbench.storage.settings import Settings, cache_dir

Answers = list[dict[str, Any]]
LevelName = Literal["task", "module", "general"]
MOST_ENTRIES = 100
LONGEST_LINE = 300
INSTRUCTIONS = (
    "kbench judges GPU kernels. A problem is a PyTorch reference (`Model`), a solution a file with `ModelNew`. "
    "`verify` says whether a solution is right, `run` also how fast it is; `explain` says what a code means."
)


def make_server(settings: Settings, judge: Judge, device: str) -> MCPServer[None]:
    """Make the server; starting it opens the judge."""

    @asynccontextmanager
    async def lifespan(_server: MCPServer[None]) -> AsyncIterator[None]:
        with judge:
            yield

    server: MCPServer[None] = MCPServer("kbench", version=__version__, instructions=INSTRUCTIONS, lifespan=lifespan)

    async def judged(problem: str, solution: str, case: str | None, level: LevelName | None, *, timed: bool) -> Answers:
        options = Options(verify_only=not timed)
        if case is not None:
            options["cases"] = case
        if level is not None:
            options["level"] = level
        with _tool_errors():
            return [answer_of(one) for one in await judge.evaluate_async(problem, solution, **options)]

    @server.tool()
    def list_problems() -> Answers:
        """List problems with their cases and the names of their solutions."""
        return [
            {
                "name": entry.name,
                "summary": entry.summary[:LONGEST_LINE],
                "cases": sorted(registry.selectable_cases(entry))[:MOST_ENTRIES],
                "solutions": [one.name for one in registry.solutions(entry, settings)][:MOST_ENTRIES],
            }
            for entry in registry.problems(settings)[:MOST_ENTRIES]
        ]

    @server.tool()
    async def verify(problem: str, solution: str, case: str | None = None, level: LevelName | None = None) -> Answers:
        """Verify a solution of a problem. Problem and solution: a name, a path or source text."""
        return await judged(problem, solution, case, level, timed=False)

    @server.tool()
    async def run(problem: str, solution: str, case: str | None = None, level: LevelName | None = None) -> Answers:
        """Verify and time a solution; arguments as for `verify`. Times are in milliseconds."""
        return await judged(problem, solution, case, level, timed=True)

    @server.tool()
    def compare(old: str, new: str) -> Answers:
        """Compare two saved runs by name, path or @latest: t_new / t_old of each case, with bounds and a verdict."""
        with _tool_errors():
            runs = [find_run(name, settings.results) for name in (old, new)]
            return [_line(case) for case in comparing.compare(runs).cases[:MOST_ENTRIES]]

    @server.tool()
    def explain(code: str) -> dict[str, str]:
        """Explain a status, finding, flag or verdict, and what to do about it."""
        found = explanation_of(code)
        if found is None:
            raise ToolError(f"no code `{code}`; {did_you_mean(code.lower(), sorted(EXPLANATIONS))}")
        return {"code": found.code, "kind": found.kind, "meaning": found.meaning, "fix": found.fix}

    @server.tool()
    def doctor() -> list[dict[str, str]]:
        """Check GPU, compilers, sandbox and peaks, with a fix for each problem."""
        return [
            {"check": one.name, "status": one.status.value, "detail": one.detail[:LONGEST_LINE], "fix": one.fix}
            for one in checkup.examine(device, cache_dir())
        ]

    return server


@contextmanager
def _tool_errors() -> Iterator[None]:
    """Turn kbench's own errors into tool errors; the SDK hides all others."""
    try:
        yield
    except KbenchError as error:
        raise ToolError(f"{error.message}; {error.hint}" if error.hint else error.message) from error


def _line(case: comparing.ComparedCase) -> dict[str, Any]:
    verdict = case.verdict
    line: dict[str, Any] = {"problem": case.problem, "solution": case.solution, "case": case.case}
    if verdict is not None:
        line |= {"verdict": verdict.status.value, "ratio": verdict.ratio, "low": verdict.low, "high": verdict.high}
    return line
