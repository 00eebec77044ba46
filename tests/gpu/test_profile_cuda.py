"""Which kernels a call launches, as CUPTI lists them on a real GPU."""

import pytest
import torch

from kbench.isolation import launched
from kbench.isolation.launched import Origin
from kbench.measure.profiler import profile

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def origins(call) -> list[Origin]:
    _, answer = profile(call, torch.cuda.synchronize)
    seen = launched.activities([list(activity) for activity in answer])
    return [launched.origin(each.name) for each in seen]


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
        assert Origin.OWN not in found, (number, [activity[0] for activity in profile(call, torch.cuda.synchronize)[1]])


def test_a_kernel_of_ones_own_is():
    from kbench.solutions.group_norm.two_kernel import ModelNew

    model, x = ModelNew(64, 8).cuda(), torch.randn(2, 64, 64, 64, device="cuda")
    assert Origin.OWN in origins(lambda: model(x))


def test_preparation_is_not_in_the_profile():
    x = torch.randn(1 << 20, device="cuda")
    output, activities = profile(lambda: x + 1, lambda: x.mul_(1.0))
    assert torch.equal(output, x + 1)
    assert len(activities) == 1
    name, start_ns, duration_ns = activities[0]
    assert "add" in name.lower()
    assert start_ns == 0
    assert 500 < duration_ns < 1_000_000
