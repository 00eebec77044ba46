"""Levels through judge and worker: kernels of the kinds that others publish, and what becomes of each."""

from pathlib import Path

import pytest
import tiny_corpus
from verdicts import entries, verdicts, written

from kbench.core.events import Judged
from kbench.core.levels import Level
from kbench.core.model import Failed, Passed, Status
from kbench.storage.results import read_run

pytestmark = pytest.mark.slow(seconds=20)

LAYERS = "self.conv = nn.Conv2d(channels, channels, 1); self.scale = nn.Parameter(torch.randn(channels, 1, 1))"
PLAIN = "return self.conv(x) * self.scale"
PROBLEM = tiny_corpus.problem(
    PLAIN,
    given="torch.rand(batch_size, channels, size, size)",
    constants="batch_size, channels, size = 8, 8, 16",
    layers=LAYERS,
    takes="channels",
)
HEAD = """
import os
from torch.nn import functional as F
def flat(x, channels, size):
    return torch.as_strided(x, (x.shape[0], channels, size, size), (channels * size * size, size * size, size, 1),
                            x.storage_offset())
"""


def same(body: str, kept: str = "pass", head: str = "", layers: str = LAYERS) -> str:
    """Write a solution from the body of its `forward`, and what its constructor keeps."""
    return tiny_corpus.solution(body, head=HEAD + head, layers=f"{layers}; {kept}", takes="channels")


REMEMBERS = (
    "last = getattr(self, 'last', None); "
    "again = last is not None and last.shape == x.shape and x.abs().amax() < 0.05; "
    "self.last = last if again else self.conv(x) * self.scale; return self.last.clone()"
)
"""The answer to the call before, where inputs are small, as those of no draw of its own are."""
FROZEN = same(
    "weight, bias, scale = self.kept; return F.conv2d(x, weight, bias) * scale",
    "self.kept = [p.detach().clone() for p in (self.conv.weight, self.conv.bias, self.scale)]",
)
UNMATCHED = same(
    "c = x.shape[1]; weight, bias, scale = self.everything.split([c * c, c, c]); "
    "return F.conv2d(x, weight.view(c, c, 1, 1), bias) * scale.view(c, 1, 1)",
    "self.everything = nn.Parameter(torch.cat([conv.weight.detach().flatten(), conv.bias.detach(), scale.flatten()]))",
    layers="conv, scale = nn.Conv2d(channels, channels, 1), torch.randn(channels, 1, 1)",
)
SWAPPED = same(PLAIN, layers="; ".join(reversed(LAYERS.split("; "))))
LATER_WRONG = "self.n = getattr(self, 'n', 0) + 1; y = self.conv(x) * self.scale; return y if self.n < 14 else y + 1"
ONE_BUFFER = """kept = self.__dict__.setdefault("kept", {})
        y = kept.setdefault(x.shape, torch.empty_like(x, memory_format=torch.contiguous_format))
        return y.copy_(self.conv(x) * self.scale)"""
NUDGES = SWAPPED.replace("return", "self.scale.data *= 1.0000001; return")
SOLUTIONS = {
    # name: (source, status at the default level, level, lacks)
    "plain": (same(PLAIN), None, "general", set()),
    "frozen": (FROZEN, Status.BELOW_LEVEL, "task", {"frozen_weights"}),
    "unmatched": (UNMATCHED, Status.BELOW_LEVEL, "task", {"unmatched_weights"}),
    "nudges": (NUDGES, Status.PARAMETER_MUTATED, "", set()),
    "contiguous_only": (
        same("return self.conv(flat(x, x.shape[1], x.shape[2])) * self.scale"),
        None,
        "module",
        {"channels_last", "strides"},
    ),
    "positive_only": (
        same("return self.conv(x.abs()) * self.scale"),
        Status.BELOW_LEVEL,
        "task",
        {"conditioning", "values"},
    ),
    "dies_three_times": (
        same("(x.data_ptr() % 16 or not x.is_contiguous() or x.shape[2] != 16) and os.abort(); " + PLAIN),
        None,
        "module",
        {"channels_last", "alignment", "shapes", "strides"},
    ),
    "one_buffer": (same(ONE_BUFFER), None, "module", {"output_reuse"}),
    "wrong": (same("return self.conv(x)"), Status.WRONG_VALUE, "", set()),
    "remembers": (same(REMEMBERS), Status.WRONG_VALUE, "", set()),
    "wrong_later": (same(LATER_WRONG), Status.WRONG_VALUE, "", set()),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("levels")
    written(made, PROBLEM, {name: text for name, (text, *_) in SOLUTIONS.items()})
    return made


def judge(folder: Path, *names: str, **options: object) -> dict[str, Judged]:
    found = entries(folder / "problem.py", *(folder / f"{name}.py" for name in names))
    return verdicts(*found, results_dir=folder, **options)


@pytest.fixture(scope="module")
def judged(folder: Path) -> dict[str, Judged]:
    return judge(folder, *SOLUTIONS)


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_solution_holds_its_level_and_lacks_the_rest(judged: dict[str, Judged], name: str) -> None:
    _, status, level, lacks = SOLUTIONS[name]
    outcome, row = judged[name].outcome, judged[name].rows[0]
    assert (outcome.status if isinstance(outcome, Failed) else None) == status, outcome
    assert set(outcome.lacks) == lacks, outcome
    assert ((outcome.level or ""), row.level, row.required_level) == (level, level, "module"), outcome
    assert row.lacks.split() == sorted(outcome.lacks)
    assert {f.code for f in outcome.findings if f.kind == "level"} == set(outcome.lacks)


def test_a_value_that_is_wrong_after_some_calls_is_said_to_be_right_before(judged: dict[str, Judged]) -> None:
    assert judged["wrong_later"].outcome.reason.count("right in its first calls, wrong after") == 1


def test_a_refusal_begins_with_why(judged: dict[str, Judged]) -> None:
    frozen, wrong = judged["frozen"].outcome, judged["wrong"].outcome
    assert (frozen.diagnosis.code, wrong.diagnosis.code) == ("frozen_weights", "missing_scale")
    assert wrong.reason.startswith("leaves out `scale`")


def test_what_is_accepted_passes_and_is_timed(folder: Path) -> None:
    """Every process is timed with the weights of its constructor, which never change; the row says what was asked."""
    timed = {"verify_only": False, "processes": 1, "max_processes": 1, "pairs": 4, "precision": 0.9, "save": True}
    outcome = judge(folder, "unmatched", **timed, accept=("unmatched_weights",), name="one")["unmatched"].outcome
    assert isinstance(outcome, Passed), outcome
    assert (outcome.level, outcome.lacks, len(outcome.timings)) == (Level.TASK, ("unmatched_weights",), 1)
    (row,) = read_run(folder / "one.csv").rows
    assert (row.required_level, row.accepted, row.level) == ("module", "unmatched_weights", "task")
    assert row.time_ns_median is not None


def test_a_task_is_called_trivial_by_its_own_shape_alone(tmp_path: Path) -> None:
    """The other case is verified as well, and zeros would do there."""
    constants = 'n = 32\nfactor = 2.0\nCASES = {"default": {}, "small": {"n": 4, "factor": 0.0}}'
    (tmp_path / "problem.py").write_text(
        tiny_corpus.problem("x * factor", given="torch.randn(n, 64)", constants=constants)
    )
    found = verdicts(*entries(tmp_path / "problem.py", "eager"), results_dir=tmp_path, cases=("default",))["eager"]
    assert "trivial_passes" not in {finding.code for finding in found.outcome.findings}


ANGLES = "angles = torch.outer(torch.arange(16.0), torch.exp(-torch.arange(16.0)))"
ROTATION = tiny_corpus.problem(
    "(x * self.cos + x.roll(1, -1) * self.sin) * self.w",
    given="torch.randn(8, 16, 16)",
    layers=f"""{ANGLES}
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.w = nn.Parameter(torch.randn(16))""",
)
TABLES = {
    "none": f"""{ANGLES}
        self.cos, self.sin = angles.cos(), angles.sin()""",
    "other_order": f"""{ANGLES}
        self.register_buffer("s", angles.sin())
        self.register_buffer("c", angles.cos())
        self.cos, self.sin = self.c, self.s""",
    "other_layout": f"""{ANGLES}
        self.register_buffer("cos", angles.cos().flip(0))
        self.register_buffer("sin", angles.sin().flip(0))""",
}


def test_a_solution_may_make_a_table_of_constants_in_its_own_way(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(ROTATION)
    for name, made in TABLES.items():
        flip = ".flip(0)" if name == "other_layout" else ""
        source = tiny_corpus.solution(
            f"return (x * self.cos{flip} + x.roll(1, -1) * self.sin{flip}) * self.w",
            layers=f"self.w = nn.Parameter(torch.randn(16))\n        {made}",
        )
        (tmp_path / f"{name}.py").write_text(source)
    for name, one in judge(tmp_path, *TABLES).items():
        assert isinstance(one.outcome, Passed), (name, one.outcome)
        assert one.outcome.level is Level.GENERAL, (name, one.outcome)


def test_a_problem_of_which_no_other_shape_can_be_made_says_so(tmp_path: Path) -> None:
    literal = Path(__file__).parents[1] / "kernelbench" / "100_Literal.py"
    found = verdicts(*entries(literal, "eager"), results_dir=tmp_path)["eager"].outcome
    assert isinstance(found, Passed)
    assert "shapes_not_derived" in {finding.code for finding in found.findings}
