"""Every way for a candidate to fail has its own status, and none of them takes the harness along."""

import shutil
from pathlib import Path

import pytest
from verdicts import verdicts

from kbench.core.errors import PluginError
from kbench.core.events import Judged, TimeLimits
from kbench.core.model import Failed, Passed, Status
from kbench.plugins import registry
from kbench.plugins.registry import Entry
from kbench.selftest.fixtures import CORPUS
from kbench.storage.settings import Settings

pytestmark = pytest.mark.slow(seconds=20)

FOLDER = Path(__file__).parents[1] / "candidates"
PROBLEM = CORPUS / "problems" / "gelu.py"

STATUSES = {
    "correct": {Status.PASSED},
    "wrong_value": {Status.WRONG_VALUE},
    "wrong_shape": {Status.WRONG_SHAPE},
    "wrong_dtype": {Status.WRONG_DTYPE},
    "wrong_device": {Status.WRONG_DEVICE},
    "two_outputs": {Status.WRONG_STRUCTURE},
    "no_output": {Status.WRONG_STRUCTURE, Status.WRONG_TYPE},
    "text_output": {Status.WRONG_STRUCTURE, Status.WRONG_TYPE},
    "nan": {Status.WRONG_VALUE},
    "raises": {Status.RAISED},
    "raises_at_import": {Status.IMPORT_FAILED},
    "missing_module": {Status.IMPORT_FAILED},
    "raises_in_constructor": {Status.INIT_FAILED},
    "other_arguments": {Status.INIT_FAILED},
    "other_forward_arguments": {Status.RAISED},
    "prints_200_mb": {Status.PASSED},
    "exits": {Status.EXITED},
    "exits_at_import": {Status.EXITED, Status.IMPORT_FAILED},
    "segfaults": {Status.CRASHED},
    "aborts": {Status.CRASHED},
    "does_not_compile": {Status.BUILD_FAILED},
    "cuda_does_not_compile": {Status.BUILD_FAILED},
    "eats_memory": {Status.OUT_OF_MEMORY},
    "hangs_in_import": {Status.IMPORT_TIMEOUT},
    "hangs_in_forward": {Status.CALL_TIMEOUT},
    "build_never_ends": {Status.BUILD_TIMEOUT},
}

LIMITS = {
    "eats_memory": TimeLimits(call_s=60.0),
    "hangs_in_import": TimeLimits(import_s=2.0),
    "hangs_in_forward": TimeLimits(call_s=2.0),
    "build_never_ends": TimeLimits(build_s=4.0),
}


@pytest.fixture(scope="module")
def problem() -> Entry:
    return registry.find_problem(PROBLEM, Settings())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def quick(problem: Entry, results: Path) -> dict[str, Judged]:
    """All candidates that need no time limit of their own, one judge for all of them."""
    names = [name for name in STATUSES if name not in LIMITS]
    return judge(problem, names, TimeLimits(), results)


def judge(problem: Entry, names: list[str], limits: TimeLimits, results: Path) -> dict[str, Judged]:
    entries = [registry.find_solution(problem, FOLDER / f"{name}.py", Settings()) for name in names]
    return verdicts(problem, entries, limits=limits, results_dir=results)


def test_every_candidate_has_its_status() -> None:
    assert set(STATUSES) == {path.stem for path in FOLDER.glob("*.py")} - {"no_model"}


@pytest.mark.parametrize("name", [name for name in STATUSES if name not in LIMITS])
def test_status(quick: dict[str, Judged], name: str) -> None:
    outcome = quick[name].outcome
    if isinstance(outcome, Passed):
        assert STATUSES[name] == {Status.PASSED}
        return
    assert outcome.status in STATUSES[name], f"{outcome.status}: {outcome.reason}\n{outcome.log}"
    assert outcome.reason, "a failure says why"
    assert len(outcome.log) < 100_000


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_expiry(problem: Entry, results: Path, name: str) -> None:
    outcome = judge(problem, [name], LIMITS[name], results)[name].outcome
    assert isinstance(outcome, Failed)
    assert outcome.status in STATUSES[name], f"{outcome.reason}\n{outcome.log}"


def test_a_failure_leaves_those_after_it_alone(quick: dict[str, Judged]) -> None:
    assert list(quick) == [name for name in STATUSES if name not in LIMITS]
    assert isinstance(quick["correct"].outcome, Passed)
    assert isinstance(quick["prints_200_mb"].outcome, Passed)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("raises", "multiple of 7"),
        ("raises_at_import", "no such device library"),
        ("missing_module", "a_module_that_does_not_exist"),
        ("raises_in_constructor", "cannot allocate the workspace"),
        ("other_arguments", "groups"),
        ("other_forward_arguments", "scale"),
        ("wrong_shape", "expected (32, 500)"),
        ("wrong_dtype", "float16"),
        ("does_not_compile", "undeclared_name"),
        ("cuda_does_not_compile", "undeclared_in_cuda" if shutil.which("nvcc") else "no CUDA compiler: nvcc is not"),
    ],
)
def test_reason_names_the_cause(quick: dict[str, Judged], name: str, shown: str) -> None:
    outcome = quick[name].outcome
    assert isinstance(outcome, Failed)
    assert shown in outcome.reason


def test_mismatch_says_where(quick: dict[str, Judged]) -> None:
    outcome = quick["wrong_value"].outcome
    assert isinstance(outcome, Failed)
    assert outcome.correctness is not None
    assert outcome.correctness.wrong_elements == outcome.correctness.elements > 0 or outcome.correctness.mismatches
    first = outcome.correctness.mismatches[0]
    assert first.got - first.want == pytest.approx(1e-3, rel=1e-2)


def test_file_without_model_is_no_solution(problem: Entry) -> None:
    with pytest.raises(PluginError, match="ModelNew"):
        registry.find_solution(problem, FOLDER / "no_model.py", Settings())


def test_syntax_error_names_the_line(problem: Entry, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text((FOLDER / "syntax_error.py.txt").read_text())
    with pytest.raises(PluginError, match=r"line 7"):
        registry.find_solution(problem, broken, Settings())
