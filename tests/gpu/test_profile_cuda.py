"""Which kernels a call launches, as CUPTI lists them on a real GPU."""

import torch
from require import WITH_CUDA
from verdicts import entries, verdicts

from kbench.core import kernel_names
from kbench.core.kernel_names import KernelOrigin
from kbench.core.model import Failed, Passed, Status
from kbench.devices.profiler import profile
from kbench.judge.clock.profile import activities
from kbench.selftest.fixtures import CORPUS

pytestmark = WITH_CUDA
TIMED = {"device": "cuda", "verify_only": False, "wait_for_device": True}


def origins(call) -> list[KernelOrigin]:
    _, answer = profile(call, torch.cuda.synchronize)
    seen = activities([list(activity) for activity in answer])
    return [kernel_names.origin(each.name) for each in seen]


def test_operators_and_libraries_of_torch_are_not_ones_own():
    x = torch.randn(4, 64, 64, 64, device="cuda")
    w = torch.randn(64, 64, 3, 3, device="cuda")
    m = torch.randn(512, 512, device="cuda")
    calls = [
        lambda: torch.nn.functional.gelu(x),
        lambda: torch.nn.functional.group_norm(x, 8),
        lambda: torch.nn.functional.layer_norm(x, (64,)),
        lambda: torch.nn.functional.max_pool2d(x, 2),
        lambda: torch.logsumexp(x, 1),
        lambda: torch.nn.functional.conv2d(x, w),
        lambda: m @ m,
        lambda: m @ m[0],
        lambda: m.half() @ m.half(),
        x.sum,
        lambda: x.cumsum(0),
        lambda: torch.sort(m),
    ]
    for number, call in enumerate(calls):
        found = origins(call)
        assert found, f"call {number}"
        assert KernelOrigin.OWN not in found, (
            number,
            [activity[0] for activity in profile(call, torch.cuda.synchronize)[1]],
        )


def test_a_kernel_of_ones_own_is():
    from kbench.solutions.group_norm.two_kernel import ModelNew

    model, x = ModelNew(64, 8).cuda(), torch.randn(2, 64, 64, 64, device="cuda")
    assert KernelOrigin.OWN in origins(lambda: model(x))


def test_preparation_is_not_in_the_profile():
    x = torch.randn(1 << 20, device="cuda")
    output, activities = profile(lambda: x + 1, lambda: x.mul_(1.0))
    assert torch.equal(output, x + 1)
    assert len(activities) == 1
    name, start_ns, duration_ns = activities[0]
    assert "add" in name.lower()
    assert start_ns == 0
    assert 500 < duration_ns < 1_000_000


def test_numbers_among_the_results_of_a_profiled_call_are_its_own():
    """The sum of other inputs would be wrong, and each call has other inputs."""
    found = entries(CORPUS / "problems" / "sum_as_number.py", CORPUS / "honest" / "precision.py", entry="sum_in_double")
    (judged,) = verdicts(*found, processes=1, max_processes=1, require_custom=True, **TIMED).values()
    assert isinstance(judged.outcome, Failed), judged.outcome
    assert judged.outcome.status is Status.LIBRARY_ONLY, "the values were right, and torch computed them"


FELL_BACK = """import torch

SOURCE = "__global__ void never_built() {}"


class ModelNew(torch.nn.Module):
    def __init__(self, num_features, num_groups):
        super().__init__()
        self.gn = torch.nn.GroupNorm(num_groups, num_features)

    def forward(self, x):
        return self.gn(x)
"""


def test_rows_tell_whose_kernels_ran(tmp_path):
    """One more worker is profiled for it, after both processes."""
    (tmp_path / "fell_back.py").write_text(FELL_BACK)
    named = entries("group_norm", "two_kernel", tmp_path / "fell_back.py", "eager")
    found = verdicts(*named, cases=("small",), processes=2, max_processes=2, **TIMED)
    assert all(isinstance(one.outcome, Passed) for one in found.values()), found
    assert all(row.own_share > 0.9 for row in found["two_kernel"].rows), found["two_kernel"].outcome.findings
    assert all((row.own_share, "library_time" in row.flags) == (0.0, True) for row in found["fell_back"].rows)
    assert all((row.own_share, "library_time" in row.flags) == (0.0, False) for row in found["eager"].rows)
