"""Diagnoses through judge and worker: what only two processes show, such as weights that a worker keeps."""

from pathlib import Path

import pytest

from kbench.core.events import Judged, RunOptions, TimeLimits
from kbench.core.model import Failed, Status
from kbench.plugins import registry
from kbench.run.session import run
from kbench.storage.settings import Settings

pytestmark = [pytest.mark.slow(seconds=5), pytest.mark.xdist_group("diagnosis")]  # one run judges all of it

PROBLEM = """
import torch
from torch import nn
batch_size = 32
dim = 64
CASES = {"default": {}, "small": {"batch_size": 8}}
class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
    def forward(self, x):
        return self.norm(self.linear(x))
def get_inputs():
    return [torch.randn(batch_size, dim)]
def get_init_inputs():
    return [dim]
"""
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


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Failed]:
    folder = tmp_path_factory.mktemp("diagnosed")
    (folder / "problem.py").write_text(PROBLEM)
    for name, text in {**{name: body for name, (body, _, _) in SOLUTIONS.items()}, "raises": RAISES}.items():
        (folder / f"{name}.py").write_text(HEAD + text)
    problem = registry.find_problem(folder / "problem.py", Settings())
    entries = [registry.find_solution(problem, folder / f"{name}.py", Settings()) for name in (*SOLUTIONS, "raises")]
    options = RunOptions(
        device="cpu", verify_only=True, cases=("default",), limits=TimeLimits(), results_dir=folder, save=False
    )
    found = [event for event in run(problem, entries, options) if isinstance(event, Judged)]
    return {one.solution: one.outcome for one in found}


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
