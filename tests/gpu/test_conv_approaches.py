"""The convolution problems' CUDA and Triton solutions against torch in fp32 and fp64."""

from __future__ import annotations

import importlib

import convolutions
import pytest
import torch
from convolutions import LOGSUMEXP, POOL, oracle_error
from require import WITH_CUDA
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = [*WITH_CUDA, pytest.mark.usefixtures("ieee_reference")]

SOLUTIONS = [
    (POOL, "fused_norm_scale"),
    (POOL, "all_custom"),
    (POOL, "triton"),
    (LOGSUMEXP, "fused_norm_activation_residual"),
    (LOGSUMEXP, "custom_conv_norm_logsumexp"),
    (LOGSUMEXP, "triton"),
]
INPUTS = {
    "uniform": lambda x: x,
    "normal": torch.randn_like,
    "offset": lambda x: torch.randn_like(x) + 30,
    "strided": lambda x: torch.randn_like(x).transpose(2, 3).contiguous().transpose(2, 3),
    # Contiguous, and 4 bytes past any 16-byte boundary.
    "misaligned": lambda x: torch.randn(x.numel() + 1, device=x.device)[1:].view(x.shape),
}


def build(problem, name, monkeypatch, case, clamp=(-2.0, 3.0)):
    settings = case if isinstance(case, dict) else importlib.import_module(f"kbench.problems.{problem}").CASES[case]
    clamped = {"clamp_min": clamp[0], "clamp_max": clamp[1]} if problem == POOL else {}
    return convolutions.build(problem, name, settings | clamped, monkeypatch)


def check(model, candidate, x):
    with torch.no_grad():
        before = x.clone()
        out, reference = candidate(x), model(x)
        oracle = model.double()(x.double())
    assert torch.equal(x, before)
    assert out.shape == reference.shape
    assert ((out - reference).abs() <= 1e-5 + 1e-5 * reference.abs()).all()
    assert oracle_error(out, oracle) <= max(1.0, 16 * oracle_error(reference, oracle))


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("case", ["small", "ragged"])
@pytest.mark.parametrize(("problem", "name"), SOLUTIONS)
def test_within_contract_and_oracle_rule(problem, name, case, kind, monkeypatch):
    model, candidate, x = build(problem, name, monkeypatch, case)
    check(model, candidate, INPUTS[kind](x))


@pytest.mark.parametrize(("problem", "name"), SOLUTIONS)
def test_full_size(problem, name, monkeypatch):
    """A few samples of the full batch go through fp64; all of it is compared with the fp32 reference."""
    model, candidate, x = build(problem, name, monkeypatch, "default")
    with torch.no_grad():
        out, reference = candidate(x), model(x)
        assert ((out - reference).abs() <= 1e-5 + 1e-5 * reference.abs()).all()
        chosen = [0, 77, len(x) - 1]
        oracle = model.double()(x[chosen].double())
    assert oracle_error(out[chosen], oracle) <= max(1.0, 16 * oracle_error(reference[chosen], oracle))


ODD = {
    POOL: [
        {"batch_size": 1, "in_channels": 1, "out_channels": 3, "num_groups": 3, "height": 9, "width": 7},
        {"batch_size": 2, "in_channels": 3, "out_channels": 70, "num_groups": 2, "height": 20, "width": 45},
        {"batch_size": 2, "kernel_size": (1, 5), "height": 12, "width": 40, "maxpool_kernel_size": (5, 2)},
        {"batch_size": 2, "in_channels": 70, "kernel_size": 7, "height": 30, "width": 31},
        {"batch_size": 0, "height": 12, "width": 12},
    ],
    LOGSUMEXP: [
        {"batch_size": 1, "in_channels": 1, "out_channels": 1, "groups": 1, "height": 4, "width": 5},
        {"batch_size": 2, "in_channels": 3, "out_channels": 70, "groups": 2, "height": 20, "width": 45},
        {"batch_size": 2, "kernel_size": (1, 5), "height": 12, "width": 40},
        {"batch_size": 2, "in_channels": 70, "kernel_size": 7, "height": 30, "width": 31},
        {"batch_size": 2, "in_channels": 2, "kernel_size": 13, "height": 20, "width": 21},
        {"batch_size": 0, "height": 12, "width": 12},
    ],
}


@pytest.mark.parametrize(
    ("problem", "name", "shape"),
    [(problem, name, shape) for problem, name in SOLUTIONS for shape in ODD[problem]],
)
def test_odd_shapes(problem, name, shape, monkeypatch):
    if problem == POOL and "out_channels" in shape:
        shape = {**shape, "scale_shape": (shape["out_channels"], 1, 1)}
    model, candidate, x = build(problem, name, monkeypatch, shape)
    if len(x) == 0:
        assert candidate(x).shape == model(x).shape
        return
    check(model, candidate, torch.randn_like(x))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(("problem", "name"), SOLUTIONS)
def test_nan_and_infinity_stay_in_their_sample(problem, name, value, monkeypatch):
    model, candidate, x = build(problem, name, monkeypatch, "small")
    x[1, 2, 5, 5] = value
    with torch.no_grad():
        torch.testing.assert_close(candidate(x), model(x), rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize(("problem", "name"), SOLUTIONS)
def test_gradients_match_double_precision(problem, name, monkeypatch):
    """With clamp bounds far out and values drawn at random, no maximum is close enough to another to swap."""
    model, candidate, x = build(problem, name, monkeypatch, "ragged", clamp=(-1e3, 1e3))
    x = torch.randn_like(x)
    model.double()
    mine, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    out, oracle = candidate(mine), model(theirs)
    cotangent = torch.randn_like(out)
    out.backward(cotangent)
    oracle.backward(cotangent.double())
    pairs = [(mine, theirs)]
    pairs += [(dict(candidate.named_parameters())[key], value) for key, value in model.named_parameters()]
    for ours, true in pairs:
        torch.testing.assert_close(ours.grad.double(), true.grad, rtol=1e-4, atol=3e-5 * true.grad.abs().max().item())


class _Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operators = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


ALLOCATION_AND_VIEWS = {
    "empty",
    "new_empty",
    "empty_strided",
    "view",
    "reshape",
    "_reshape_alias",
    "alias",
    "detach",
}


@pytest.mark.parametrize("case", ["small", "ragged"])
def test_all_custom_dispatches_no_torch_computation(case, monkeypatch):
    _, candidate, x = build(POOL, "all_custom", monkeypatch, case)
    with torch.no_grad(), _Recorder() as recorder:
        candidate(x)
    assert recorder.operators <= ALLOCATION_AND_VIEWS
    with torch.no_grad(), _Recorder() as control:
        torch.relu(x)
    assert "relu" in control.operators


def test_tf32_of_the_caller_does_not_reach_the_convolution():
    from kbench.kernels.convolution import torch_convolution

    x, weight = torch.randn(8, 64, 64, 64, device="cuda"), torch.randn(64, 64, 3, 3, device="cuda")
    tensors = (x, weight, torch.randn(64, device="cuda"))
    exact = functional.conv2d(*(tensor.double() for tensor in tensors)).float()
    torch.backends.cudnn.conv.fp32_precision = "tf32"
    assert (functional.conv2d(*tensors) - exact).abs().max() > 5e-3
    assert (torch_convolution(*tensors) - exact).abs().max() < 5e-4


@pytest.mark.parametrize("offset", [30.0, 100.0, 1e4])
def test_statistics_survive_an_offset(offset):
    from kbench.kernels.group_statistics import group_statistics

    for pixels in (7, 64, 4096, 50001):
        x = torch.randn(3, 6, pixels, device="cuda") + offset
        exact = x.double().view(3, 2, -1)
        mean, inverse_std = group_statistics(x, 2, 1e-5).unbind(-1)
        torch.testing.assert_close(mean, exact.mean(-1), rtol=1e-9, atol=1e-7)
        torch.testing.assert_close(inverse_std, (exact.var(-1, correction=0) + 1e-5).rsqrt(), rtol=3e-7, atol=0)


def test_logsumexp_at_the_ends_of_the_range():
    from kbench.kernels.logsumexp import channel_logsumexp

    infinity = float("inf")
    rows = torch.tensor(
        [
            [-infinity] * 12,
            [-infinity] * 11 + [1.0],
            [300.0] * 12,
            [-300.0] * 12,
            [infinity] + [0.0] * 11,
            [0.0] * 11 + [infinity],
            [float("nan")] + [0.0] * 11,
            [0.0] * 9 + [float("nan"), infinity, -infinity],
            [-3e38] + [3e38] * 11,
        ],
        device="cuda",
    )
    x = rows.view(9, 12, 1).expand(9, 12, 5).contiguous()
    torch.testing.assert_close(channel_logsumexp(x), torch.logsumexp(x, 1, keepdim=True), equal_nan=True)


@pytest.mark.parametrize("pool", [(1, 1), (2, 2), (3, 5), (4, 4), (7, 6)])
def test_max_pool_and_clamp_are_exact(pool):
    from kbench.kernels.clamp import clamp
    from kbench.kernels.max_pool import max_pool

    x = torch.randn(2, 3, 23, 29, device="cuda")
    x[0, 1, 3, 4] = float("nan")
    x[1, 2] = -float("inf")
    pooled = functional.max_pool2d(x, pool)
    torch.testing.assert_close(max_pool(x, pool), pooled, rtol=0, atol=0, equal_nan=True)
    for low, high in ((-0.5, 0.5), (0.5, -0.5), (-float("inf"), 1.0)):
        torch.testing.assert_close(clamp(pooled, low, high), pooled.clamp(low, high), rtol=0, atol=0, equal_nan=True)
