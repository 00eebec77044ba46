"""Diagnoses through judge and worker: what only two processes show, such as weights that a worker keeps."""

from pathlib import Path

import pytest
from texts import problem_text, written

from kbench.core.events import Judged, RunOptions, TimeLimits
from kbench.core.model import Failed, Passed, Status
from kbench.run.session import run

pytestmark = pytest.mark.slow

PROBLEM = problem_text(
    "return self.norm(self.linear(x))",
    "torch.randn(batch_size, dim)",
    head='batch_size = 32\ndim = 64\nCASES = {"default": {}, "small": {"batch_size": 8}}',
    init="self.linear, self.norm = nn.Linear(dim, dim), nn.LayerNorm(dim)",
    takes="dim",
)
HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.kept = None
        self.prepare()
    def prepare(self):
        pass
    def helper(self, x):
        return F.linear(x, self.linear.weight[:, :3])
"""
SOLUTIONS = {
    "constructed": (
        """
    def prepare(self):
        self.kept = self.linear.weight.detach().clone()
    def forward(self, x):
        return self.norm(F.linear(x, self.kept, self.linear.bias))
""",
        "frozen_weights",
        "holds the level `task`, and `module` is required: right with the weights it was constructed with",
    ),
    "first_call": (
        """
    def forward(self, x):
        if self.kept is None:
            self.kept = self.linear.weight.detach().clone()
        return self.norm(F.linear(x, self.kept, self.linear.bias))
""",
        "frozen_weights",
        "holds the level `task`, and `module` is required: right with the weights it was constructed with",
    ),
    "no_bias": (
        """
    def forward(self, x):
        return self.norm(F.linear(x, self.linear.weight))
""",
        "missing_bias",
        "leaves out `linear.bias`; ",
    ),
    "half": (
        """
    def forward(self, x):
        y = F.linear(x.half(), self.linear.weight.half(), self.linear.bias.half())
        return self.norm(y.float())
""",
        "fp16",
        "computes in fp16, or stores values in it; ",
    ),
    "switch": (
        """
    def prepare(self):
        torch.backends.cuda.matmul.allow_tf32 = True
    def forward(self, x):
        return self.norm(F.linear(x.bfloat16().float(), self.linear.weight, self.linear.bias))
""",
        "precision_switch",
        "sets torch.backends.cuda.matmul.allow_tf32 = True",
    ),
    "stale": (
        """
    def forward(self, x):
        y = self.norm(self.linear(x))
        before, self.kept = self.kept, y.clone()
        return y if before is None or before.shape != y.shape else before
""",
        "stale_output",
        "returns the answer to the call before; ",
    ),
    "one_shape": (
        """
    def forward(self, x):
        y = self.norm(self.linear(x))
        return y if x.shape[0] == 32 else y * 1.5
""",
        "needs_other_shape",
        "holds the level `task`, and `module` is required: wrong at another case that the problem lists (case_special",
    ),
    "small_epsilon": (
        """
    def forward(self, x):
        return F.layer_norm(self.linear(x), self.norm.normalized_shape, self.norm.weight, self.norm.bias, 1e-3)
""",
        "epsilon",
        "adds another epsilon than the reference's 1e-05: about 0.001; ",
    ),
    "noise": (
        """
    def forward(self, x):
        return self.norm(self.linear(x)) + 1e-3 * x.sin()
""",
        None,
        "output[0, 0]: got ",
    ),
}
RAISES = """
    def forward(self, x):
        return self.norm(self.helper(x))
"""


NORM = problem_text("return self.norm(x)", "3 + 2 * torch.randn(64, 32)", init="self.norm = nn.BatchNorm1d(32)")
NORM_IN_EVAL_MODE = NORM.replace("Model", "ModelNew").replace(
    "self.norm(x)",
    "nn.functional.batch_norm(x, self.norm.running_mean, self.norm.running_var, self.norm.weight, self.norm.bias)",
)


def outcomes(folder: Path, problem: str, solutions: dict[str, str], **options) -> dict[str, Passed | Failed]:
    found, entries = written(folder, problem, solutions)
    how = RunOptions(
        device="cpu",
        verify_only=True,
        cases=("default",),
        limits=TimeLimits(),
        results_dir=folder,
        save=False,
        **options,
    )
    return {one.solution: one.outcome for one in run(found, entries, how) if isinstance(one, Judged)}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Failed]:
    bodies = {**{name: body for name, (body, _, _) in SOLUTIONS.items()}, "raises": RAISES}
    folder = tmp_path_factory.mktemp("diagnosed")
    return outcomes(folder, PROBLEM, {name: HEAD + body for name, body in bodies.items()})


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_refusal_begins_with_why(judged: dict[str, Failed], name: str) -> None:
    _, code, reason = SOLUTIONS[name]
    outcome = judged[name]
    below = code in {"frozen_weights", "needs_other_shape"}
    assert outcome.status is (Status.BELOW_LEVEL if below else Status.WRONG_VALUE)
    assert (outcome.diagnosis.code if outcome.diagnosis is not None else None) == code, outcome.reason
    assert outcome.reason.startswith(reason), outcome.reason
    told = outcome.findings[-1].message if below else outcome.reason
    assert "where 1e-5 + 1e-5·|want| is allowed" in told


def test_weights_that_are_kept_were_tried_once_more(judged: dict[str, Failed]) -> None:
    assert judged["constructed"].diagnosis.evidence.endswith("called with all of them as before it is right")


def test_a_traceback_begins_with_the_line_that_raised(judged: dict[str, Failed]) -> None:
    lines = judged["raises"].log.strip().splitlines()
    assert Path(lines[0].partition(":")[0]).name == "raises.py"
    assert "in helper: return F.linear(x, self.linear.weight[:, :3])" in lines[0]
    assert len(lines) == 3, "the line, its caller, and what was raised"


def test_statistics_of_eval_mode_are_named_and_accepted_there(tmp_path: Path) -> None:
    """The worker holds the running statistics that it was given: the reference's have moved on since."""
    solutions = {"frozen": NORM_IN_EVAL_MODE}
    refused = outcomes(tmp_path, NORM, solutions)["frozen"]
    assert refused.status is Status.WRONG_VALUE
    assert refused.reason.startswith("computes as in eval mode, and both sides run in training mode; "), refused.reason
    assert isinstance(outcomes(tmp_path, NORM, solutions, eval_mode=True)["frozen"], Passed)
