"""Runs from end to end on the CPU: real judges, real workers, real files, with problems of a few lines."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pandas
import pytest
import tiny_corpus

from kbench.catalog import registry
from kbench.core.events import Event, Judged, RunOptions, Saved, StageFinished
from kbench.core.levels import Level
from kbench.core.model import Failed, Passed, Status
from kbench.engine.run import run
from kbench.storage import settings
from kbench.storage.results import read_run

pytestmark = pytest.mark.usefixtures("own_cache")

LAYERS = "self.scale = nn.Parameter(torch.ones(n))"
SCALE = tiny_corpus.problem(
    "torch.tanh(x) * self.scale",
    given="torch.randn(32, n)",
    constants='n = 64\nCASES = {"small": {"n": 16}, "default": {}}',
    layers=LAYERS,
    takes="n",
)
MIXED = tiny_corpus.problem(
    'order = x.argsort(dim=1); return {"order": order, "rest": (x > 0, [2 * x]), "k": k}',
    given="torch.randn(8, 16), 3",
    inputs="x, k",
)
TIRES = tiny_corpus.problem(
    """if x.device.type != "meta" and (x.shape[1] == 64) == tires_of_long and next(calls) > tires_after:
            raise getattr(builtins, kind)("out of range")
        return 2 * x""",
    given="torch.rand(32, n)",
    constants="""
import builtins, itertools
n, tires_of_long, tires_after, kind = 64, True, 20.0, "IndexError"
calls = itertools.count(1)
""",
)
"""Its reference raises after some calls, of long rows or of short ones."""
FOUR = dict.fromkeys(("s0", "s1", "s2", "s3"), tiny_corpus.solution("return 2 * x"))


def scaled(body: str, head: str = "") -> str:
    """Write a solution of SCALE from the body of its `forward`, and what stands above the class."""
    return tiny_corpus.solution(body, head=head, layers=LAYERS, takes="n")


COMPILED = scaled(
    "y = x.tanh().contiguous(); module.scale(y.data_ptr(), self.scale.data_ptr(), *y.shape); return y",
    head='''import ctypes
from torch.utils.cpp_extension import load_inline

# Without torch's headers, which take 12 s to compile.
source = """
extern "C" void scale(float* y, const float* by, long rows, long n) {
  for (long i = 0; i < rows * n; ++i) y[i] *= by[i % n];
}
"""
module = ctypes.CDLL(load_inline("scaled_for_test", source, no_implicit_headers=True, is_python_module=False))
module.scale.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
''',
)
ANOTHER_BUILD = scaled(
    "return x.tanh() * self.scale", head="from torch.utils import cpp_extension  # whoever names it may compile\n"
)


def begin(folder: Path, problem: str, solutions: dict[str, str], **options) -> Iterator[Event]:
    """Write a problem and solutions, and start a run of them."""
    (folder / "some_problem.py").write_text(problem)
    for name, text in solutions.items():
        (folder / f"{name}.py").write_text(text)
    known = settings.load()
    entry = registry.find_problem(folder / "some_problem.py", known)
    chosen = [registry.find_solution(entry, folder / f"{name}.py", known) for name in solutions]
    return run(entry, chosen, RunOptions(**{"device": "cpu", "results_dir": folder / "results", **options}))


def judged(events: list[Event]) -> dict[str, Judged]:
    return {event.solution: event for event in events if isinstance(event, Judged)}


def csv_of(folder: Path) -> Path:
    (path,) = [p for p in (folder / "results").glob("*.csv") if ".samples." not in p.name]
    return path


def test_rows_and_samples_of_a_timed_run(tmp_path) -> None:
    right = scaled("return x.tanh().mul_(self.scale)")
    timed = {
        "processes": 2,
        "max_processes": 2,
        "pairs": 6,
        "precision": 0.9,
    }  # else it waits for a machine that is calm
    events = list(begin(tmp_path, SCALE, {"right": right}, name="timed", **timed))

    outcome = judged(events)["right"].outcome
    assert isinstance(outcome, Passed), outcome
    assert len(outcome.timings) == 2
    saved = events[-1]
    assert isinstance(saved, Saved)
    path = tmp_path / "results" / "timed.csv"
    assert saved.csv_path == str(path)

    read = read_run(path)
    assert [row.process for row in read.rows] == [0, 1]
    assert read.rows == judged(events)["right"].rows
    assert len({row.oracle_ratio for row in read.rows}) == 2, "each row tells what its own process verified"
    assert {row.tensors for row in read.rows} == {"float32[32,16] -> float32[32,16]"}
    for row in read.rows:
        samples = read.samples["some_problem", "right", "small", row.process]
        assert row.samples == len(samples)
        arms = [sample.arm for sample in samples]
        assert arms.count("candidate") == arms.count("reference") >= 6
        assert all(sample.t_event_ns > 0 for sample in samples)
        assert row.speedup_low is not None
        assert row.speedup_high is not None
        assert row.speedup_low <= row.speedup_high

    table = pandas.read_csv(path)
    assert table["status"].tolist() == ["passed"] * 2
    assert (table["time_ns_median"] > 0).all()
    assert (table["ref_time_ns_median"] > 0).all()
    samples = pandas.read_csv(tmp_path / "results" / "timed.samples.csv")
    assert len(samples) == table["samples"].sum()


def test_structures_and_integers_are_compared_exactly(tmp_path) -> None:
    right = '{"k": k, "order": x.argsort(dim=1), "rest": [x.gt(0), (x + x,)]}'
    results = {
        "right": (right, None),
        "last_two_swapped": (right.replace("x.argsort(dim=1)", "x.argsort(dim=1)[:, torch.tensor(SWAPPED)]"), "order"),
        "other_number": (right.replace("k,", "k + 1,", 1), "'k'"),
        "key_missing": (right.replace('"k": k, ', ""), "3 outputs"),
        "long_key": (right.replace('"k"', '"k" * 200_000'), "output["),
    }
    swapped = str([*range(14), 15, 14])
    solutions = {
        name: tiny_corpus.solution(f"return {text.replace('SWAPPED', swapped)}", inputs="x, k")
        for name, (text, _) in results.items()
    }
    events = judged(list(begin(tmp_path, MIXED, solutions, verify_only=True)))

    for name, (_, complaint) in results.items():
        outcome = events[name].outcome
        if complaint is None:
            assert isinstance(outcome, Passed), outcome
            continue
        assert isinstance(outcome, Failed), name
        assert outcome.status in {Status.WRONG_VALUE, Status.WRONG_OUTPUT}, outcome.reason
        assert complaint in outcome.reason, name
        assert len(outcome.reason) < 2000, name
    assert {row.solution for row in read_run(csv_of(tmp_path)).rows} == set(results)
    with csv_of(tmp_path).open(newline="") as stream:
        assert len(list(csv.reader(stream))) == 1 + len(results)


def test_a_reference_that_raises_later_is_the_problems_fault(tmp_path) -> None:
    *_, last = judged(list(begin(tmp_path, TIRES, FOUR, verify_only=True))).values()
    assert isinstance(last.outcome, Failed)
    assert last.outcome.status is Status.REFERENCE_FAILED
    assert last.outcome.reason == "the problem fails: IndexError: out of range"
    assert "some_problem.py" in last.outcome.log


@pytest.mark.slow(seconds=15)
def test_every_case_of_a_run_has_the_same_identity_of_the_problem(tmp_path) -> None:
    """A judge lists folders for a worker's sandbox between two cases: the problem did not read those."""
    solutions = {"right": scaled("return torch.tanh(x) * self.scale")}
    list(begin(tmp_path, SCALE, solutions, cases=("small",), level=Level.TASK, backward=True, verify_only=True))
    rows = read_run(csv_of(tmp_path)).rows
    assert [(row.case, row.timed, row.status) for row in rows] == [
        ("small", "forward", "passed"),
        ("small+backward", "forward+backward", "passed"),
    ]
    assert len({row.problem_sha256 for row in rows}) == 1


@pytest.mark.slow(seconds=6)
def test_what_is_built_is_not_built_again(tmp_path) -> None:
    for expected, text in ((1, COMPILED), (0, COMPILED), (1, ANOTHER_BUILD)):
        events = list(begin(tmp_path, SCALE, {"compiled": text}, level=Level.TASK, verify_only=True))
        built = [event for event in events if isinstance(event, StageFinished) and event.stage == "build"]
        assert isinstance(judged(events)["compiled"].outcome, Passed), judged(events)["compiled"].outcome
        assert [event.ok for event in built] == [True] * expected
