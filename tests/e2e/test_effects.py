"""What a call does beside its result: to inputs, to parameters, to the shapes of objects; and what no draw shows."""

from pathlib import Path

import pytest
import tiny_corpus
from verdicts import verdicts, written

from kbench.core.events import Judged
from kbench.core.model import Failed, Passed, Status

pytestmark = pytest.mark.slow(seconds=30)


def model(body: str, *, init: str = "", takes: str = "x") -> str:
    return tiny_corpus.solution(body, head="import os", layers=init, inputs=takes)


def problem(body: str, given: str, *, init: str = "", takes: str = "x") -> str:
    return tiny_corpus.problem(body, given=given, constants="n = 24", layers=init, inputs=takes)


NORM = "{0} * torch.rsqrt({0}.square().mean(-1, keepdim=True) + 1e-6)"
PAIR, TAKES = "torch.randn(n, 64), torch.randn(n, 64)", "x, r"
EMA = (
    "self.w, self.mean = nn.Parameter(torch.randn(64)), nn.Parameter(torch.zeros(64)); "
    "self.register_buffer('calls', torch.zeros(()))"
)
TABLE = "self.table = nn.Parameter(torch.randn(600, 8))"
IDS = "torch.randint(0, 60, (n, 12))"

GIVEN = {
    "returned": problem(f"r.add_(x); return {NORM.format('r')}, r", PAIR, takes=TAKES),
    "statistics": problem(
        "self.calls += 1; self.mean.data.mul_(0.9).add_(0.1 * x.mean(0)); return x * self.w",
        "torch.randn(n, 64)",
        init=EMA,
    ),
    "shapes": problem("return x.unsqueeze_(1) * 2 + 1", "torch.randn(n, 64)"),
    "ids": problem("return self.table[x].sum(1)", IDS, init=TABLE),
    "labels": problem("return torch.randn(60, 8, generator=torch.manual_seed(1))[x].sum(1)", IDS),
}
ADDED = f"s = r + x; return {NORM.format('s')}, s"
IN_PLACE = f"r.add_(x); return {NORM.format('r')}, r"
SOLUTIONS = {
    # problem/solution: (source, status at `module`, what it lacks)
    "returned/updates": (model(IN_PLACE, takes=TAKES), None, set()),
    "returned/never_updates": (model(ADDED, takes=TAKES), Status.WRONG_VALUE, set()),
    "returned/updates_other_rows": (
        model(f"s = r + x; r[1:] = s[1:]; return {NORM.format('s')}, s", takes=TAKES),
        Status.WRONG_VALUE,
        set(),
    ),
    "statistics/leaves_them": (model("return x * self.w", init=EMA), None, set()),
    "statistics/updates_them": (
        model("self.mean.data.mul_(0.9).add_(0.1 * x.mean(0)); return x * self.w", init=EMA),
        None,
        set(),
    ),
    "statistics/changes_another": (
        model("self.w.data.mul_(1.0000001); return x * self.w", init=EMA),
        Status.BELOW_LEVEL,
        {"unmatched_weights"},
    ),
    "shapes/as_the_reference": (model("return x.unsqueeze_(1) * 2 + 1"), None, set()),
    "shapes/a_view": (model("return x[:, None] * 2 + 1"), None, set()),
    "shapes/changes_values": (model("x.mul_(2); return x[:, None] + 1"), Status.INPUT_MUTATED, set()),
    "ids/whole_table": (model("return self.table[x].sum(1)", init=TABLE), None, set()),
    "ids/a_tenth": (model("return self.table[:60][x.clamp(max=59)].sum(1)", init=TABLE), None, {"unseen_integers"}),
    "ids/dies_beyond": (
        model("int(x.max()) < 60 or os.abort(); return self.table[x].sum(1)", init=TABLE),
        None,
        {"unseen_integers"},
    ),
    "ids/says_so": (
        model("assert x.max() < 60, 'ids below 60'; return self.table[x].sum(1)", init=TABLE),
        None,
        {"unseen_integers"},
    ),
    "labels/as_drawn": (
        model("return torch.randn(60, 8, generator=torch.manual_seed(1))[x].sum(1)"),
        None,
        set(),
    ),
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judged]:
    found: dict[str, Judged] = {}
    for name, text in GIVEN.items():
        own = {key.replace("/", "_"): source for key, (source, *_) in SOLUTIONS.items() if key.startswith(f"{name}/")}
        folder = tmp_path_factory.mktemp(name)
        found |= verdicts(*written(folder, text, own), results_dir=folder)
    return found


@pytest.mark.parametrize("name", SOLUTIONS)
def test_effects_are_results_and_nothing_else_is_blamed_for_them(judged: dict[str, Judged], name: str) -> None:
    _, status, lacks = SOLUTIONS[name]
    outcome = judged[name.replace("/", "_")].outcome
    assert (outcome.status if isinstance(outcome, Failed) else None) == status, outcome
    assert set(outcome.lacks) == lacks, outcome


def test_a_row_says_which_integers_stayed_as_they_were_drawn(judged: dict[str, Judged]) -> None:
    def unvaried(name: str) -> list[str]:
        outcome = judged[name].outcome
        assert isinstance(outcome, Passed)
        return [finding.message for finding in outcome.findings if finding.code == "unvaried_input"]

    assert unvaried("labels_as_drawn") == ["integers only as `get_inputs` draws them: x"]
    assert not unvaried("ids_whole_table")


def test_structure_that_is_kept_is_named(tmp_path: Path) -> None:
    given = "(lambda a: (a + a.T) / 2)(torch.randn(n, n)), torch.randn(n, 8)"
    files = written(
        tmp_path,
        problem("return x @ r", given, takes=TAKES),
        {"one_half": model("return (x.triu() + x.triu(1).T) @ r", takes=TAKES)},
    )
    (found,) = verdicts(*files, results_dir=tmp_path).values()
    assert isinstance(found.outcome, Passed), found.outcome
    notes = [finding.message for finding in found.outcome.findings if finding.code == "kept_structure"]
    assert notes == ["in every draw, and therefore in all inputs: x is symmetric"]
    assert found.outcome.level == "general"
