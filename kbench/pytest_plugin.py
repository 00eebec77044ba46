"""`kbench_case` and `@pytest.mark.kbench`: tests verify and time kernels. It imports nothing slow."""

import difflib
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kbench.report.summary import CaseSummary

MARKER = "kbench"
FIXTURE = "kbench_case"
USAGE = "@pytest.mark.kbench(problem, solution, max_slowdown=0.02)"


class KbenchUnclearWarning(UserWarning):
    """A solution is right, but its times do not show on which side of `max_slowdown` it is."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    text = f"{MARKER}(problem, solution, max_slowdown=None, **options): verify, and time, a solution (kbench)"
    config.addinivalue_line("markers", text)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the fixture to every marked test: one that forgets to ask for it would pass without a verdict."""
    for item in items:
        if item.get_closest_marker(MARKER) is not None and isinstance(item, pytest.Function):
            item.fixturenames[:] = dict.fromkeys((*item.fixturenames, FIXTURE))


@pytest.fixture(scope="session")
def _kbench_nursery() -> Iterator[None]:
    """Share one process that has imported torch between all tests of the session."""
    from kbench.host import nursery_process

    with nursery_process.kept():
        yield


@pytest.fixture
def kbench_case(request: pytest.FixtureRequest, _kbench_nursery: None) -> "CaseSummary":
    """Judge the solution of the test's marker: fail unless it passes and is fast enough; skip without its device."""
    marker = request.node.get_closest_marker(MARKER)
    if marker is None:
        pytest.fail(f"`{FIXTURE}` needs a marker: {USAGE}", pytrace=False)
    if len(marker.args) + len({"problem", "solution"} & marker.kwargs.keys()) != 2:
        pytest.fail(f"the marker names one problem and one solution: {USAGE}", pytrace=False)
    return _judge(request, *marker.args, **marker.kwargs)


def _judge(
    request: pytest.FixtureRequest,
    problem: str | Path,
    solution: str | Path,
    *,
    max_slowdown: float | None = None,
    **options: Any,
) -> "CaseSummary":
    """Judge one solution of one case; nothing is timed without `max_slowdown`, unless `options` say so."""
    import kbench
    from kbench.core.errors import KbenchError, NoGpuError
    from kbench.core.model import Status
    from kbench.report.run import failure
    from kbench.report.summary import summarise

    is_number = isinstance(max_slowdown, int | float) and not isinstance(max_slowdown, bool)
    if max_slowdown is not None and not (is_number and -1 < max_slowdown < math.inf):
        pytest.fail(f"`max_slowdown` is {max_slowdown!r}; it is a share above -1, such as 0.02 for 2 %", pytrace=False)
    if misspelt := difflib.get_close_matches("max_slowdown", options, n=1):
        pytest.fail(f"there is no option `{misspelt[0]}`; did you mean `max_slowdown`?", pytrace=False)
    asked = {"verify_only": max_slowdown is None, **options}
    try:
        judged = kbench.evaluate(_place(request, problem), _place(request, solution), **asked)
    except NoGpuError as error:
        raise pytest.skip.Exception(error.message) from None
    except KbenchError as error:
        refused = f"{error.message}\nhint: {error.hint}" if error.hint else error.message
        files = [_place(request, given) for given in (problem, solution) if str(given).endswith(".py")]
        if not all(Path(file).exists() for file in files):
            refused += f"\nnote: a relative path is looked for in the test's folder, then in {request.config.rootpath}"
        raise pytest.fail.Exception(refused, pytrace=False) from None
    if len(judged) != 1:
        named = ", ".join(one.case for one in judged)
        pytest.fail(f"{len(judged)} cases were judged ({named}); `cases=` of the marker selects one", pytrace=False)
    case = summarise(judged[0])
    if case.status is Status.SKIPPED:
        pytest.skip(f"{case.solution}, case {case.case}: {case.reason}")
    if not case.passed:
        pytest.fail(failure(case, f"{case.solution}, case {case.case}"), pytrace=False)
    if max_slowdown is not None:
        _require_speed(case, max_slowdown)
    return case


def _require_speed(case: "CaseSummary", max_slowdown: float) -> None:
    """Fail the test if the solution is shown to be slower than allowed; warn if that is open."""
    from kbench.report import units

    least = 1 / (1 + max_slowdown)
    low, high = case.bounds
    if low is None or high is None:
        pytest.fail(f"{case.solution}, case {case.case}, was not timed, so it cannot be held to a speed", pytrace=False)
    allowed = f"at least {least:.3g}× is required (max_slowdown={max_slowdown:g})"
    shown = f"{case.solution}, case {case.case}: {case.shown_speedup} as fast as the reference"
    interval = f"interval {max(low, 0):.3g} to {high:.3g}; {units.duration(case.time_ns)} a call"
    if high < least:
        pytest.fail(f"{shown}, {allowed}; {interval}", pytrace=False)
    if low < least:
        message = f"{shown}, {allowed}, and the interval does not decide: {interval}"
        warnings.warn(KbenchUnclearWarning(message), stacklevel=2)


def _place(request: pytest.FixtureRequest, given: str | Path) -> str | Path:
    """Find a relative path from the test's folder, then from pytest's root; names stay as they are."""
    from kbench.catalog.places import provider_of

    file, function = provider_of(str(given))
    if function and file.endswith(".py"):
        return f"{_place(request, file)}:{function}"
    places = [folder / given for folder in (request.path.parent, request.config.rootpath)]
    found = next((place for place in places if place.is_file()), given)
    # A path that neither folder has is named as the test's own, which its author means.
    return places[0] if found == given and str(given).endswith(".py") else found
