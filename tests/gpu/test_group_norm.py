"""The GPU solutions of group_norm against fp64, over shapes, offsets, layouts and gradients."""

import importlib

import pytest
import torch
from require import WITH_CUDA
from torch import Tensor

from kbench.problems.group_norm import Model

pytestmark = WITH_CUDA

SOLUTIONS = ("two_kernel", "single_pass", "triton")

# (batch, channels, groups, *spatial): tiny, ragged, one tile, many channels in a tile, short last tile, 2-D to 5-D.
SHAPES = (
    (2, 64, 8, 64, 64),
    (3, 15, 5, 37, 29),
    (2, 6, 3),
    (1, 4, 1, 1),
    (5, 12, 4, 7),
    (1, 1, 1, 4),
    (2, 8, 2, 36),
    (4, 16, 4, 5, 6, 8),
    (3, 32, 1, 56, 56),
    (1, 64, 8, 1024, 1000),
    (2, 8, 8, 300, 302),
    (7, 10, 5, 33, 128),
    (300, 64, 32, 12, 12),
    (1, 4, 1, 2048, 1024),
    (1, 8, 1, 4096, 1024),
)
# Offsets in standard deviations.
OFFSETS = (0.0, 30.0, 100.0, -100.0)


def solution(name: str, channels: int, groups: int) -> torch.nn.Module:
    """A solution with random parameters of both signs."""
    module = importlib.import_module(f"kbench.solutions.group_norm.{name}").ModelNew(channels, groups).cuda()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


def oracle(module: torch.nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """The result in fp64, and torch's own in fp32, with the module's parameters."""
    gn = module.gn
    exact = torch.nn.functional.group_norm(x.double(), gn.num_groups, gn.weight.double(), gn.bias.double(), gn.eps)
    return exact, torch.nn.functional.group_norm(x, gn.num_groups, gn.weight, gn.bias, gn.eps)


def error_in_tolerances(result: Tensor, exact: Tensor) -> float:
    """Largest error in units of 1e-5 * min(1, rms) + 1e-5 * |exact|."""
    rms = exact.square().mean().sqrt().clamp(max=1.0)
    return ((result.double() - exact).abs() / (1e-5 * rms + 1e-5 * exact.abs())).max().item()


def assert_within_the_rule(module: torch.nn.Module, x: Tensor) -> None:
    """The oracle rule with f = 4, and unwritten elements caught by NaN from the allocator's last tenant."""
    with torch.no_grad():
        exact, reference = oracle(module, x)
        poison = torch.full_like(x, float("nan"))
        del poison
        error = error_in_tolerances(module(x), exact)
    assert error <= max(1.0, 4 * error_in_tolerances(reference, exact))


@pytest.mark.parametrize("name", SOLUTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_agrees_with_fp64(name: str, shape: tuple[int, ...]) -> None:
    batch, channels, groups, *spatial = shape
    torch.manual_seed(1)
    assert_within_the_rule(solution(name, channels, groups), torch.randn(batch, channels, *spatial, device="cuda"))


@pytest.mark.parametrize("name", SOLUTIONS)
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("shape", [(2, 64, 8, 256, 256), (3, 15, 5, 37, 29), (2, 8, 4, 64, 64)], ids=str)
def test_an_offset_does_no_harm(name: str, shape: tuple[int, ...], offset: float) -> None:
    batch, channels, groups, *spatial = shape
    torch.manual_seed(2)
    assert_within_the_rule(
        solution(name, channels, groups), torch.randn(batch, channels, *spatial, device="cuda") + offset
    )


@pytest.mark.parametrize("name", SOLUTIONS)
def test_full_size_agrees_with_torch_and_fp64(name: str) -> None:
    """The default case; fp64 on four samples of the batch, the contract with torch on all."""
    torch.manual_seed(3)
    module = solution(name, 64, 8)
    x = torch.rand(112, 64, 512, 512, device="cuda")
    with torch.no_grad():
        result = module(x)
        again = module(x)
        assert torch.equal(result, again)
        del again
        for sample in range(112):
            reference = torch.nn.functional.group_norm(
                x[sample : sample + 1], 8, module.gn.weight, module.gn.bias, module.gn.eps
            )
            excess = (result[sample] - reference[0]).abs() - 1e-5 - 1e-5 * reference[0].abs()
            assert excess.max().item() <= 0, sample
        for sample in (0, 1, 56, 111):
            exact, reference = oracle(module, x[sample : sample + 1])
            limit = max(1.0, 4 * error_in_tolerances(reference, exact))
            assert error_in_tolerances(result[sample : sample + 1], exact) <= limit


@pytest.mark.parametrize("name", SOLUTIONS)
def test_layouts_outliers_and_special_values(name: str) -> None:
    torch.manual_seed(4)
    module = solution(name, 16, 4)
    wide = torch.randn(3, 16, 64, 130, device="cuda")
    assert_within_the_rule(module, wide[..., 1:-1])
    assert_within_the_rule(module, torch.randn(64, 3, 16, 65, device="cuda").permute(1, 2, 0, 3))
    misaligned = torch.randn(3 * 16 * 4096 + 1, device="cuda")[1:].view(3, 16, 64, 64)
    assert_within_the_rule(module, misaligned)

    # A first channel, and a first value, far from the rest: centres taken from either would be poor ones.
    shifted = torch.randn(3, 16, 64, 64, device="cuda")
    shifted[:, ::4] += 1000
    assert_within_the_rule(module, shifted)
    spiked = torch.randn(3, 16, 64, 64, device="cuda")
    spiked[:, :, 0, 0] = 1e6
    assert_within_the_rule(module, spiked)

    with torch.no_grad():
        constant = torch.full((2, 16, 64, 64), 3.7, device="cuda")
        expected = module.gn.bias.view(1, 16, 1, 1).expand_as(constant)
        assert torch.allclose(module(constant), expected, atol=1e-5)
        for value in (float("nan"), float("inf")):
            x = torch.randn(2, 16, 64, 64, device="cuda")
            x[1, 5, 3, 2] = value
            bad = module(x).isnan()
            assert torch.equal(bad, oracle(module, x)[1].isnan())
            assert bad.any()
            assert not bad.all()
        assert module(torch.empty(0, 16, 8, 8, device="cuda")).shape == (0, 16, 8, 8)


@pytest.mark.parametrize("name", SOLUTIONS)
@pytest.mark.parametrize("shape", [(3, 15, 5, 37, 29), (2, 16, 4, 64, 64), (2, 8, 4, 5, 6, 8)], ids=str)
def test_gradients_agree_with_fp64_autograd(name: str, shape: tuple[int, ...]) -> None:
    batch, channels, groups, *spatial = shape
    torch.manual_seed(5)
    module = solution(name, channels, groups)
    x = torch.randn(batch, channels, *spatial, device="cuda", requires_grad=True)
    weights = torch.randn_like(x)
    (module(x) * weights).sum().backward()

    reference = Model(channels, groups).double().cuda()
    reference.load_state_dict(module.state_dict())
    x64 = x.detach().double().requires_grad_()
    (reference(x64) * weights.double()).sum().backward()
    pairs = zip((x, *module.parameters()), (x64, *reference.parameters()), strict=True)
    for mine, exact in pairs:
        assert mine.grad is not None
        assert exact.grad is not None
        scale = exact.grad.abs().max()
        assert (mine.grad.double() - exact.grad).abs().max() <= 1e-5 * scale


@pytest.mark.parametrize("name", SOLUTIONS)
def test_parameters_are_read_at_every_call_and_inputs_left_alone(name: str) -> None:
    module = solution(name, 16, 4)
    x = torch.randn(2, 16, 64, 64, device="cuda")
    before = x.clone()
    with torch.no_grad():
        module(x)
        module.gn.weight.neg_().mul_(3)
        module.gn.bias.add_(1)
        assert_within_the_rule(module, x)
    assert torch.equal(x, before)


def test_the_single_pass_kernel_takes_what_it_should() -> None:
    """Otherwise the tests above would test the fallback."""
    from kbench.kernels import group_norm_single_pass

    def taken(*shape: int, groups: int) -> bool:
        return group_norm_single_pass.plan_for(torch.empty(shape, device="cuda"), groups) is not None

    if torch.cuda.get_device_capability() < group_norm_single_pass.MIN_CAPABILITY:
        pytest.skip("no bulk copies on this device")
    assert taken(112, 64, 512, 512, groups=8)
    assert taken(2, 64, 64, 64, groups=8)
    assert taken(2, 8, 36, groups=2)
    assert taken(3, 32, 56, 56, groups=1)
    assert not taken(3, 15, 37, 29, groups=5)
    assert not taken(1, 8, 4096, 4096, groups=1)
    assert not taken(0, 8, 64, 64, groups=1)


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_call_can_be_captured_in_a_graph(name: str) -> None:
    module = solution(name, 16, 4)
    x = torch.randn(2, 16, 64, 64, device="cuda")
    with torch.no_grad():
        expected = module(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = module(x)
        graph.replay()
        torch.cuda.synchronize()
    assert torch.equal(result, expected)
