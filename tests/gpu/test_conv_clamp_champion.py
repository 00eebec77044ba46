"""The one-launch convolution -> GroupNorm -> scale -> max-pool -> clamp against torch in fp32 and fp64."""

from __future__ import annotations

import convolutions
import pytest
import torch
from convolutions import POOL, oracle_error
from require import WITH_CUDA

pytestmark = [*WITH_CUDA, pytest.mark.usefixtures("ieee_reference")]

DEFAULT = {"batch_size": 128, "height": 128, "width": 128}
SHAPES = {
    "default": DEFAULT,
    "small": {"batch_size": 2, "height": 32, "width": 32},
    "one sample": {"batch_size": 1},
    "uneven rounds": {"batch_size": 67, "height": 33, "width": 60},
    "three rounds": {"batch_size": 133, "height": 30, "width": 32},
    "least": {"batch_size": 3, "height": 6, "width": 6},
    "two column tiles": {"batch_size": 5, "height": 41, "width": 200},
    "rows of any alignment": {"batch_size": 4, "height": 50, "width": 127},
    "few channels": {"batch_size": 3, "in_channels": 5, "out_channels": 21, "num_groups": 7, "width": 35},
    "tall image": {"batch_size": 2, "height": 250, "width": 30},
    "one group": {"batch_size": 2, "height": 77, "num_groups": 1},
}
GENERAL = {
    "ragged": {
        "batch_size": 3,
        "in_channels": 5,
        "out_channels": 21,
        "num_groups": 7,
        "height": 41,
        "width": 35,
        "maxpool_kernel_size": 3,
    },
    "more channels": {
        "batch_size": 2,
        "in_channels": 9,
        "out_channels": 72,
        "num_groups": 8,
        "height": 20,
        "width": 20,
    },
    "large image": {"batch_size": 2, "height": 300, "width": 300},
    "wider filter": {"batch_size": 2, "kernel_size": 5, "height": 20, "width": 20},
}
NAN, INFINITY = float("nan"), float("inf")


def planted(value):
    def plant(x):
        x = x.clone()
        x[x.shape[0] // 2, -1, 7, 5] = value
        return x

    return plant


def powers(x, dim, first, last):
    shape = [-1 if i == dim else 1 for i in range(4)]
    return x * torch.logspace(first, last, x.shape[dim], device=x.device).view(shape)


INPUTS = {
    "uniform": lambda x: x,
    "normal": torch.randn_like,
    "tiny": lambda x: x * 1e-6,
    "denormal": lambda x: x * 1e-41,
    "large": lambda x: torch.randn_like(x) * 1e6,
    "offset 30 std": lambda x: torch.randn_like(x) + 30,
    "offset 100 std": lambda x: torch.randn_like(x) - 100,
    "offsets of samples": lambda x: torch.randn_like(x) + 100 * torch.randn_like(x[:, :1, :1, :1]),
    "scales of samples": lambda x: powers(x, 0, -3, 4),
    "scales of channels": lambda x: powers(x, 1, -6, 6),
    "constant": lambda x: torch.full_like(x, 3.7),
    "sparse": lambda x: x * (x > 0.999),
    "dark above": lambda x: x * 1e5 * (torch.arange(x.shape[2], device=x.device) > 40).view(-1, 1),
    "ramp": lambda x: x * 0.01 + torch.linspace(0, 1, x.shape[2], device=x.device).view(-1, 1),
    "outlier": planted(1e7),
    "inf": planted(INFINITY),
    "-inf": planted(-INFINITY),
    "nan": planted(NAN),
    "strided": lambda x: torch.randn_like(x).transpose(2, 3).contiguous().transpose(2, 3),
    "misaligned": lambda x: torch.randn(x.numel() + 1, device=x.device)[1:].view(x.shape),
}


def build(monkeypatch, settings, clamp=(-2.0, 3.0)):
    settings = settings | {"clamp_min": clamp[0], "clamp_max": clamp[1]}
    settings["scale_shape"] = (settings.get("out_channels", 64), 1, 1)
    return convolutions.build(POOL, "fused_wgmma", settings, monkeypatch)


def check(model, candidate, x):
    """Both verification rules; and a second call gives the same bits."""
    with torch.no_grad():
        before = x.clone()
        out, again, reference = candidate(x), candidate(x), model(x)
        some = slice(None) if x.shape[0] < 100 else slice(60, 70)
        oracle = model.double()(x[some].double())
        model.float()
    assert torch.equal(x.nan_to_num(), before.nan_to_num())
    assert out.shape == reference.shape
    assert torch.equal(out.view(torch.int32), again.view(torch.int32))
    reference_error = oracle_error(reference[some], oracle)
    assert oracle_error(out[some], oracle) <= max(1.0, 16 * reference_error)
    if reference_error < 0.5:
        torch.testing.assert_close(out, reference, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("clamp", [(0.0, 1.0), (-1e30, 1e30)], ids=["clamped", "open"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(monkeypatch, shape, clamp):
    check(*build(monkeypatch, SHAPES[shape], clamp))


@pytest.mark.parametrize("name", INPUTS)
def test_inputs(monkeypatch, name):
    model, candidate, x = build(monkeypatch, {"batch_size": 6, "height": 64, "width": 64})
    check(model, candidate, INPUTS[name](x))


@pytest.mark.parametrize("shape", GENERAL)
def test_other_sizes_take_the_general_kernels(monkeypatch, shape):
    check(*build(monkeypatch, GENERAL[shape]))


def test_a_nan_stays_in_its_sample(monkeypatch):
    _, candidate, x = build(monkeypatch, DEFAULT)
    with torch.no_grad():
        clean = candidate(x)
        x[63, 2, 100, 3] = NAN
        out = candidate(x)
    assert out[63].isnan().all()
    others = torch.arange(128, device="cuda") != 63
    assert torch.equal(out[others], clean[others])


@pytest.mark.parametrize("factor", [1e-30, 1e-6, 1e6, 1e30])
def test_weights_of_any_size(monkeypatch, factor):
    model, candidate, x = build(monkeypatch, {"batch_size": 2, "height": 64, "width": 64})
    with torch.no_grad():
        model.conv.weight.mul_(factor)
        model.conv.bias.mul_(factor)
    candidate.load_state_dict(model.state_dict())
    check(model, candidate, x)


@pytest.mark.parametrize("size", [1.0, 1e-4])
@pytest.mark.parametrize("name", ["conv.weight", "conv.bias", "group_norm.weight", "group_norm.bias", "scale"])
def test_a_nan_in_a_parameter_goes_where_it_goes_in_torch(monkeypatch, name, size):
    model, candidate, x = build(monkeypatch, {"batch_size": 2, "height": 32, "width": 32})
    x = x * size
    with torch.no_grad():
        dict(model.named_parameters())[name].view(-1)[1] = NAN
    candidate.load_state_dict(model.state_dict())
    check(model, candidate, x)


def test_bias_of_100(monkeypatch):
    model, candidate, x = build(monkeypatch, {"batch_size": 2, "height": 64, "width": 64})
    with torch.no_grad():
        model.conv.bias.add_(100)
    candidate.load_state_dict(model.state_dict())
    check(model, candidate, x)


def test_parameters_are_read_at_every_call(monkeypatch):
    model, candidate, x = build(monkeypatch, {"batch_size": 2, "height": 64, "width": 64})
    check(model, candidate, x)
    with torch.no_grad():
        for ours, theirs in zip(candidate.parameters(), model.parameters(), strict=True):
            theirs.normal_()
            ours.copy_(theirs)
    check(model, candidate, x)


def test_gradients(monkeypatch):
    model, candidate, x = build(monkeypatch, {"batch_size": 2, "height": 32, "width": 32})
    inputs = x.clone().requires_grad_()
    upstream = torch.randn_like(model(x))
    candidate(inputs).backward(upstream)
    model.double()
    exact = x.double().requires_grad_()
    model(exact).backward(upstream.double())
    pairs = [(inputs.grad, exact.grad)]
    pairs += [(a.grad, b.grad) for a, b in zip(candidate.parameters(), model.parameters(), strict=True)]
    for ours, theirs in pairs:
        assert ((ours.double() - theirs).norm() / theirs.norm()).item() < 1e-5


def test_empty_batch(monkeypatch):
    _, candidate, x = build(monkeypatch, {"batch_size": 2, "height": 32, "width": 32})
    with torch.no_grad():
        assert candidate(x[:0]).shape == (0, 64, 7, 7)
