"""The CPU solution of group_norm against fp64, and the operator's argument checks."""

import pytest
import torch
from torch import Tensor

from kbench.kernels.group_norm import check_arguments
from kbench.problems.group_norm import Model
from kbench.solutions.group_norm import cpp_openmp

SHAPES = ((2, 64, 8, 64, 64), (3, 15, 5, 37, 29), (2, 6, 3), (5, 12, 4, 7), (4, 16, 4, 5, 6, 8), (1, 8, 1, 70, 70))


def solution(channels: int, groups: int) -> cpp_openmp.ModelNew:
    module = cpp_openmp.ModelNew(channels, groups)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


def exact(module: cpp_openmp.ModelNew, x: Tensor) -> Tensor:
    gn = module.gn
    return torch.nn.functional.group_norm(x.double(), gn.num_groups, gn.weight.double(), gn.bias.double(), gn.eps)


@pytest.mark.parametrize("offset", [0.0, 30.0, -100.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_agrees_with_fp64_at_any_offset(shape: tuple[int, ...], offset: float) -> None:
    batch, channels, groups, *spatial = shape
    torch.manual_seed(1)
    module = solution(channels, groups)
    x = torch.randn(batch, channels, *spatial) + offset
    with torch.no_grad():
        assert torch.allclose(module(x).double(), exact(module, x), rtol=1e-5, atol=1e-5)


def test_strided_inputs_and_special_values() -> None:
    torch.manual_seed(2)
    module = solution(16, 4)
    with torch.no_grad():
        x = torch.randn(9, 3, 16, 11).permute(1, 2, 0, 3)
        assert torch.allclose(module(x).double(), exact(module, x), rtol=1e-5, atol=1e-5)
        poisoned = torch.randn(2, 16, 9, 9)
        poisoned[1, 5, 3, 2] = float("nan")
        assert torch.equal(module(poisoned).isnan(), exact(module, poisoned).isnan())
        constant = torch.full((2, 16, 9, 9), 3.7)
        assert torch.allclose(module(constant), module.gn.bias.view(1, 16, 1, 1).expand_as(constant), atol=1e-5)
        assert module(torch.empty(0, 16, 8, 8)).shape == (0, 16, 8, 8)


def test_gradients_agree_with_fp64_autograd() -> None:
    torch.manual_seed(4)
    module = solution(15, 5)
    x = torch.randn(3, 15, 17, 9, requires_grad=True)
    weights = torch.randn_like(x)
    (module(x) * weights).sum().backward()
    reference = Model(15, 5).double()
    reference.load_state_dict(module.state_dict())
    x64 = x.detach().double().requires_grad_()
    (reference(x64) * weights.double()).sum().backward()
    for mine, other in zip((x, *module.parameters()), (x64, *reference.parameters()), strict=True):
        assert mine.grad is not None
        assert other.grad is not None
        assert (mine.grad.double() - other.grad).abs().max() <= 1e-5 * other.grad.abs().max()


def test_parameters_are_read_at_every_call_and_inputs_left_alone() -> None:
    module = solution(16, 4)
    x = torch.randn(2, 16, 9, 9)
    before = x.clone()
    with torch.no_grad():
        module(x)
        module.gn.weight.neg_().mul_(3)
        assert torch.allclose(module(x).double(), exact(module, x), rtol=1e-5, atol=1e-5)
    assert torch.equal(x, before)


@pytest.mark.parametrize(
    ("error", "x", "groups", "gamma"),
    [
        (TypeError, torch.zeros(2, 4, 3, dtype=torch.float64), 2, torch.ones(4)),
        (TypeError, torch.zeros(2, 4, 3), 2, torch.ones(4, dtype=torch.float16)),
        (ValueError, torch.zeros(4), 2, torch.ones(4)),
        (ValueError, torch.zeros(2, 4, 3), 3, torch.ones(4)),
        (ValueError, torch.zeros(2, 4, 3), 0, torch.ones(4)),
        (ValueError, torch.zeros(2, 4, 3), 2, torch.ones(5)),
        (ValueError, torch.zeros(1, 4), 4, torch.ones(4)),
        (ValueError, torch.zeros(2, 4, 3, device="meta"), 2, torch.ones(4)),
    ],
)
def test_what_does_not_fit_together_is_refused(error: type[Exception], x: Tensor, groups: int, gamma: Tensor) -> None:
    with pytest.raises(error):
        check_arguments(x, groups, gamma, torch.zeros(4))
