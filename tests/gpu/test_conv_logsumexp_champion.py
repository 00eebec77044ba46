"""The conv ... logsumexp champion against torch in fp32 and fp64: shapes, distributions, ranges, gradients."""

import pytest
import torch
from convolutions import oracle_error
from require import WITH_CUDA

from kbench.kernels import composed
from kbench.kernels import conv_norm_logsumexp as champion

pytestmark = [
    *WITH_CUDA,
    pytest.mark.usefixtures("ieee_reference"),
    pytest.mark.skipif(
        torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0),
        reason="needs compute capability 9.0",
    ),
]

EPS = 1e-5
# The factor over torch's own error that the rule allows a convolution.
ERROR_FACTOR = 16
SHAPES = {  # batch, in_channels, height, width, out_channels, groups
    "small": (2, 8, 32, 32, 64, 16),
    "ragged": (3, 5, 41, 35, 21, 7),
    "one_channel": (1, 1, 3, 4, 1, 1),
    "one_group": (2, 8, 64, 128, 64, 1),
    "two_strips": (2, 8, 20, 130, 64, 8),
    "three_strips": (3, 3, 17, 300, 40, 40),
    "many_tiny": (300, 8, 9, 9, 64, 16),
    "near_default": (5, 8, 65, 129, 48, 16),
    # Enough of a batch for statistics from correlations of the input.
    "correlated": (70, 8, 34, 36, 64, 16),
    "correlated_uneven": (133, 5, 33, 61, 21, 7),
    "correlated_widest": (100, 8, 40, 128, 64, 1),
    "correlated_least": (140, 1, 32, 16, 2, 1),
}


def parameters(in_channels, channels, spread=0.1):
    weight = torch.randn(channels, in_channels, 3, 3, device="cuda") * spread
    bias, gamma, beta = (torch.randn(channels, device="cuda") for _ in range(3))
    return weight, bias, gamma, beta


def images(shape, transform=lambda x: x):
    batch, in_channels, height, width = shape[:4]
    return transform(torch.rand(batch, in_channels, height, width, device="cuda")).contiguous()


def check(x, tensors, groups, samples=slice(None)):
    """Both rules, on the given samples; equal non-finite places; the same output twice; untouched input."""
    before = x.clone()
    out = champion.conv_norm_logsumexp(x, *tensors, groups=groups, eps=EPS)
    again = champion.conv_norm_logsumexp(x, *tensors, groups=groups, eps=EPS)
    assert torch.equal(x.nan_to_num(7), before.nan_to_num(7))
    assert torch.equal(out.nan_to_num(7), again.nan_to_num(7))
    out, x = out[samples], x[samples]
    reference = composed.conv_norm_logsumexp(x, *tensors, groups=groups, eps=EPS)
    oracle = composed.conv_norm_logsumexp(x.double(), *(t.double() for t in tensors), groups=groups, eps=EPS)
    assert out.shape == reference.shape
    assert torch.equal(out.isnan(), reference.isnan())
    finite = reference.isfinite()
    out, reference, oracle = out[finite], reference[finite], oracle[finite]
    error, own = oracle_error(out, oracle), oracle_error(reference, oracle)
    assert error <= max(1.0, ERROR_FACTOR * own), f"{error} of the tolerance, torch's own {own}"


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    shape = SHAPES[name]
    check(images(shape), parameters(shape[1], shape[4]), shape[5])


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("name", ["small", "ragged", "correlated"])
def test_scales(name, scale):
    shape = SHAPES[name]
    check(images(shape, lambda x: (x - 0.5) * scale), parameters(shape[1], shape[4]), shape[5])


@pytest.mark.parametrize("weight_scale", [1e-6, 1e-2, 1e3])
def test_weight_scales(weight_scale):
    shape = SHAPES["small"]
    check(images(shape), parameters(shape[1], shape[4], weight_scale), shape[5])


@pytest.mark.parametrize("offset", [30, 100])
def test_mean_offsets(offset):
    shape = SHAPES["ragged"]
    check(images(shape, lambda x: (x - 0.5) * 3.46 + offset), parameters(shape[1], shape[4]), shape[5])


def test_large_bias():
    shape = SHAPES["small"]
    weight, bias, gamma, beta = parameters(shape[1], shape[4])
    bias += 100 * torch.randn_like(bias).sign()
    check(images(shape), (weight, bias, gamma, beta), shape[5])


def test_large_gamma_is_clamped_not_overflown():
    shape = SHAPES["small"]
    weight, bias, gamma, beta = parameters(shape[1], shape[4])
    check(images(shape), (weight, bias, gamma * 40, beta), shape[5])


def ramp(x):
    rows, columns = (torch.linspace(0, 1, n, device=x.device) for n in x.shape[-2:])
    return rows[:, None] + columns + 1e-3 * x


@pytest.mark.parametrize("name", ["small", "correlated"])
def test_zero_sum_filters_on_a_ramp(name):
    shape = SHAPES[name]
    weight, bias, gamma, beta = parameters(shape[1], shape[4])
    weight -= weight.mean((1, 2, 3), keepdim=True)
    check(images(shape, ramp), (weight, bias, gamma, beta), shape[5])


@pytest.mark.parametrize("name", ["ragged", "correlated"])
@pytest.mark.parametrize("value", [0.0, 0.7])
def test_constant_images(value, name):
    shape = SHAPES[name]
    check(images(shape, lambda x: torch.full_like(x, value)), parameters(shape[1], shape[4]), shape[5])


@pytest.mark.parametrize("value", [1e4, 1e7, float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("name", ["ragged", "correlated"])
def test_one_wild_pixel_stays_in_its_sample(value, name):
    shape = SHAPES[name]
    x = images(shape)
    x[1, 2, 20, 11] = value
    check(x, parameters(shape[1], shape[4]), shape[5])


@pytest.mark.parametrize("size", [1.0, 1e-4])
@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("name", ["small", "correlated"])
def test_a_nan_in_a_parameter_goes_where_it_goes_in_torch(which, size, name):
    shape = SHAPES[name]
    tensors = parameters(shape[1], shape[4])
    tensors[which].view(-1)[1] = float("nan")
    check(images(shape) * size, tensors, shape[5])


def test_default_size():
    check(images((128, 8, 128, 128)), parameters(8, 64), 16, samples=slice(0, None, 42))


def test_strided_and_misaligned_inputs():
    tensors = parameters(8, 64)
    base = torch.rand(2 * 8 * 32 * 32 + 1, device="cuda")
    check(base[1:].view(2, 8, 32, 32), tensors, 16)
    check(torch.rand(2, 32, 32, 8, device="cuda").permute(0, 3, 1, 2), tensors, 16)


def test_parameters_are_read_at_every_call():
    shape = SHAPES["small"]
    x, tensors = images(shape), parameters(shape[1], shape[4])
    check(x, tensors, shape[5])
    for tensor in tensors:
        tensor.mul_(-1.5)
    check(x, tensors, shape[5])


def test_gradients_match_fp64():
    shape = SHAPES["ragged"]
    leaves = [images(shape), *parameters(shape[1], shape[4])]
    exact = [leaf.double().requires_grad_() for leaf in leaves]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    out = champion.conv_norm_logsumexp(*leaves, groups=shape[5], eps=EPS)
    seed = torch.randn_like(out)
    found = torch.autograd.grad(out, leaves, seed)
    expected = torch.autograd.grad(composed.conv_norm_logsumexp(*exact, groups=shape[5], eps=EPS), exact, seed.double())
    for got, want in zip(found, expected, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4 * want.abs().max().item())


def test_empty_batch():
    out = champion.conv_norm_logsumexp(images((0, 8, 16, 16)), *parameters(8, 64), groups=16, eps=EPS)
    assert out.shape == (0, 1, 14, 14)


@pytest.mark.parametrize(("in_channels", "channels", "kernel"), [(9, 64, 3), (8, 65, 3), (8, 64, 5)])
def test_other_sizes_take_the_general_kernels(in_channels, channels, kernel):
    _, *vectors = parameters(in_channels, channels)
    weight = torch.randn(channels, in_channels, kernel, kernel, device="cuda") * 0.1
    x = images((2, in_channels, 16, 19))
    assert not champion.supports(x, weight)
    check(x, (weight, *vectors), 1)
