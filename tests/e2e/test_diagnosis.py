"""Diagnoses through judge and worker: what only two processes show, such as weights that a worker keeps."""

from pathlib import Path

import pytest
import tiny_corpus
from verdicts import verdicts, written

from kbench.core.model import Failed, Passed, Status

pytestmark = pytest.mark.slow

PROBLEM = tiny_corpus.problem(
    "self.norm(self.linear(x))",
    given="torch.randn(batch_size, dim)",
    constants='batch_size = 32\ndim = 64\nCASES = {"default": {}, "small": {"batch_size": 8}}',
    layers="self.linear, self.norm = nn.Linear(dim, dim), nn.LayerNorm(dim)",
    takes="dim",
)
HEAD = """from torch.nn import functional as F


def helper(x, weight):
    return F.linear(x, weight[:, :3])"""
LAYERS = "self.linear, self.norm, self.kept = nn.Linear(dim, dim), nn.LayerNorm(dim), None"
KEEPS = "self.kept = self.linear.weight.detach().clone()"
USES_KEPT = "return self.norm(F.linear(x, self.kept, self.linear.bias))"
FROZEN = "holds the level `task`, and `module` is required: right with the weights it was constructed with"


def solution(forward: str, prepare: str = "pass") -> str:
    return tiny_corpus.solution(forward, head=HEAD, layers=f"{LAYERS}; {prepare}", takes="dim")


SOLUTIONS = {
    "constructed": (solution(USES_KEPT, KEEPS), "frozen_weights", FROZEN),
    "first_call": (
        solution(f"if self.kept is None: {KEEPS}\n        {USES_KEPT}"),
        "frozen_weights",
        FROZEN,
    ),
    "unscaled": (
        solution("return F.layer_norm(self.linear(x), (x.shape[1],), None, self.norm.bias)"),
        "missing_scale",
        f"{FROZEN}, and wrong or failing once they change (frozen_weights): leaves out `norm.weight`, or keeps",
    ),
    "stale": (
        solution(
            "y = self.norm(self.linear(x)); before, self.kept = self.kept, y.clone(); "
            "return y if before is None or before.shape != y.shape else before"
        ),
        "stale_output",
        "returns the answer to the call before; ",
    ),
    "one_shape": (
        solution("y = self.norm(self.linear(x)); return y if x.shape[0] == 32 else y * 1.5"),
        "needs_other_shape",
        "holds the level `task`, and `module` is required: right at its own case, and wrong or failing at another one",
    ),
    "tail": (
        solution("y = self.norm(self.linear(x)); y[:, -5:] = 0; return y"),
        "partial_block",
        "wrong in the last 5 of 64 entries of dimension 1, right elsewhere; ",
    ),
    "noise": (solution("return self.norm(self.linear(x)) + 1e-3 * x.sin()"), None, "output["),
}
RAISES = solution("return self.norm(helper(x, self.linear.weight))")
NORM = tiny_corpus.problem("self.norm(x)", given="3 + 2 * torch.randn(64, 32)", layers="self.norm = nn.BatchNorm1d(32)")
NORM_IN_EVAL_MODE = NORM.replace("Model", "ModelNew").replace(
    "self.norm(x)",
    "nn.functional.batch_norm(x, self.norm.running_mean, self.norm.running_var, self.norm.weight, self.norm.bias)",
)


def outcomes(folder: Path, problem: str, solutions: dict[str, str], **options) -> dict[str, Passed | Failed]:
    found, entries = written(folder, problem, solutions)
    judged = verdicts(found, entries, cases=("default",), results_dir=folder, **options)
    return {name: one.outcome for name, one in judged.items()}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Failed]:
    texts = {name: text for name, (text, _, _) in SOLUTIONS.items()}
    return outcomes(tmp_path_factory.mktemp("diagnosed"), PROBLEM, {**texts, "raises": RAISES})


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_refusal_begins_with_why(judged: dict[str, Failed], name: str) -> None:
    _, code, reason = SOLUTIONS[name]
    outcome = judged[name]
    below = code == "needs_other_shape" or reason.startswith("holds the level")
    assert outcome.status is (Status.BELOW_LEVEL if below else Status.WRONG_VALUE)
    assert (outcome.diagnosis.code if outcome.diagnosis is not None else None) == code, outcome.reason
    assert outcome.reason.startswith(reason), outcome.reason
    told = outcome.findings[-1].message if below else outcome.reason
    assert "times the allowed 1e-5 + 1e-5·|want|" in told


def test_a_traceback_begins_with_the_line_that_raised(judged: dict[str, Failed]) -> None:
    lines = judged["raises"].log.strip().splitlines()
    assert Path(lines[0].partition(":")[0]).name == "raises.py"
    assert "in helper: return F.linear(x, weight[:, :3])" in lines[0]
    assert len(lines) == 3, "the line, its caller, and what was raised"


def test_statistics_of_eval_mode_are_named_and_accepted_there(tmp_path: Path) -> None:
    """The worker holds the running statistics that it was given: the reference's have moved on since."""
    solutions = {"frozen": NORM_IN_EVAL_MODE}
    refused = outcomes(tmp_path, NORM, solutions)["frozen"]
    assert refused.status is Status.WRONG_VALUE
    assert refused.reason.startswith("computes as in eval mode, and both sides run in training mode; "), refused.reason
    assert isinstance(outcomes(tmp_path, NORM, solutions, eval_mode=True)["frozen"], Passed)
