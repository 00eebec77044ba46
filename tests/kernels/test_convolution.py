"""The convolution problems' portable kernels: values, gradients, odd shapes, infinities."""

from __future__ import annotations

import importlib

import convolutions
import pytest
import torch
from convolutions import oracle_error

from kbench.kernels import composed
from kbench.kernels.conv_shape import ConvShape, channel_scale, pooled_size
from kbench.kernels.cpu_conv_norm_logsumexp import conv_norm_logsumexp_cpu
from kbench.kernels.cpu_conv_norm_pool import conv_norm_pool_cpu
from kbench.kernels.precision import ieee_float32

POOL = {"groups": 3, "eps": 1e-5, "pool": (2, 3), "clamp_min": -1.5, "clamp_max": 2.0}
NORM = {"groups": 3, "eps": 1e-5}


def arguments(batch=2, in_channels=3, channels=6, size=(11, 20), kernel=(3, 3), scale=False, seed=0):
    """Random x, weight, bias, gamma, beta and, if asked for, scale: negative values among all of them."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    tensors = [normal(batch, in_channels, *size), normal(channels, in_channels, *kernel)]
    tensors += [normal(channels) for _ in range(3)]
    return [*tensors, normal(channels, 1, 1)] if scale else tensors


def doubled(tensors):
    return [tensor.double() for tensor in tensors]


SHAPES = [
    {},
    {"batch": 1, "in_channels": 1, "channels": 3, "size": (3, 5), "kernel": (1, 1)},
    {"in_channels": 5, "channels": 21, "size": (17, 35)},
    {"channels": 9, "size": (9, 70), "kernel": (2, 5)},
    {"channels": 3, "size": (4, 34), "kernel": (3, 1)},
    {"size": (12, 13), "kernel": (11, 7)},
]


RUNS = [
    pytest.param(conv_norm_pool_cpu, composed.conv_norm_pool, POOL, True, id="pool"),
    pytest.param(conv_norm_logsumexp_cpu, composed.conv_norm_logsumexp, NORM, False, id="logsumexp"),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("run", "reference", "options", "scale"), RUNS)
def test_any_shape_agrees_with_fp64(run, reference, options, scale, shape):
    tensors = arguments(scale=scale, **shape)
    if shape.get("kernel") == (11, 7) and scale:
        options = {**options, "pool": (1, 2)}
    oracle = reference(*doubled(tensors), **options)
    out = run(*tensors, **options)
    assert out.shape == oracle.shape
    assert oracle_error(out, oracle) <= 1.0
    empty = [tensors[0][:0], *tensors[1:]]
    assert run(*empty, **options).shape == (0, *out.shape[1:])


def planted(value):
    def change(x, weight):
        x[1, 0, 4, 4] = value
        return x, weight

    return change


INPUTS = {
    "an offset of many standard deviations": lambda x, weight: (x + 100, weight),
    "a constant": lambda x, weight: (torch.full_like(x, 0.25), torch.ones_like(weight)),
    "strided": lambda x, weight: (x.transpose(2, 3).contiguous().transpose(2, 3), weight),
    "large weights": lambda x, weight: (x, weight * 100),
    "NaN": planted(float("nan")),
    "infinity": planted(float("inf")),
}


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize(("run", "reference", "options", "scale"), RUNS)
def test_any_input_is_as_far_from_fp64_as_torch_allows(run, reference, options, scale, kind):
    """NaN and infinity stay in their sample."""
    x, weight, *rest = arguments(scale=scale)
    tensors = [*INPUTS[kind](x, weight), *rest]
    oracle = reference(*doubled(tensors), **options)
    allowed = max(1.0, 16 * oracle_error(reference(*tensors, **options), oracle))
    assert oracle_error(run(*tensors, **options), oracle) <= allowed


@pytest.mark.parametrize(("run", "reference", "options", "scale"), RUNS)
def test_gradients_match_double_precision(run, reference, options, scale):
    tensors = arguments(scale=scale)
    ours = [tensor.clone().requires_grad_() for tensor in tensors]
    theirs = [tensor.double().requires_grad_() for tensor in tensors]
    out, oracle = run(*ours, **options), reference(*theirs, **options)
    cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(7))
    out.backward(cotangent)
    oracle.backward(cotangent.double())
    for mine, true in zip(ours, theirs, strict=True):
        scale_of_gradient = true.grad.abs().max().item()
        torch.testing.assert_close(mine.grad.double(), true.grad, rtol=1e-4, atol=2e-5 * scale_of_gradient)


@pytest.mark.parametrize("problem", [convolutions.POOL, convolutions.LOGSUMEXP])
@pytest.mark.parametrize("case", ["small", "ragged"])
def test_solution_stands_in_for_the_model(problem, case, monkeypatch):
    settings = importlib.import_module(f"kbench.problems.{problem}").CASES[case]
    model, candidate, x = convolutions.build(problem, "cpp_openmp", settings, monkeypatch, "cpu")
    with torch.no_grad():
        out, reference = candidate(x), model(x)
        oracle = model.double()(x.double())
    assert ((out - reference).abs() <= 1e-5 + 1e-5 * reference.abs()).all()
    assert oracle_error(out, oracle) <= max(1.0, 16 * oracle_error(reference, oracle))


def test_misfits_are_refused_with_the_reason():
    x, weight, *_ = arguments()
    with pytest.raises(ValueError, match="7 groups"):
        ConvShape.of(x, weight, groups=7)
    with pytest.raises(ValueError, match="weight expects 3"):
        ConvShape.of(x[:, :2], weight)
    with pytest.raises(ValueError, match="does not fit"):
        ConvShape.of(x[:, :, :2], weight)
    with pytest.raises(TypeError, match="float64"):
        ConvShape.of(x.double(), weight)
    with pytest.raises(ValueError, match="scale must hold one value"):
        channel_scale(torch.ones(6, 2, 1), 6)
    with pytest.raises(ValueError, match="does not fit"):
        pooled_size(3, 3, (4, 1))


@pytest.mark.parametrize("place", range(1, 5))
@pytest.mark.parametrize("run", [conv_norm_pool_cpu, conv_norm_logsumexp_cpu])
def test_tensors_on_several_devices_are_refused(run, place):
    tensors = arguments(scale=run is conv_norm_pool_cpu)
    tensors[place] = tensors[place].to("meta")
    with pytest.raises(ValueError, match="one device"):
        run(*tensors, **(POOL if run is conv_norm_pool_cpu else NORM))


@pytest.mark.parametrize("batch", [1, 2])
def test_a_single_value_is_no_group(batch):
    """As torch: one value in all cannot be normalised, one value per sample can."""
    tensors = arguments(batch=batch, in_channels=1, channels=3, size=(1, 1), kernel=(1, 1))
    if batch == 1:
        with pytest.raises(ValueError, match="more than 1 value"):
            composed.conv_norm_logsumexp(*tensors, **NORM)
        with pytest.raises(ValueError, match="more than one value"):
            conv_norm_logsumexp_cpu(*tensors, **NORM)
    else:
        oracle = composed.conv_norm_logsumexp(*doubled(tensors), **NORM)
        assert oracle_error(conv_norm_logsumexp_cpu(*tensors, **NORM), oracle) <= 1.0


def test_tf32_is_off_inside_and_as_before_outside():
    convolution = torch.backends.cudnn.conv
    before = convolution.fp32_precision
    try:
        convolution.fp32_precision = "tf32"
        with ieee_float32():
            assert convolution.fp32_precision == "ieee"
            assert torch.backends.cuda.matmul.fp32_precision == "ieee"
        assert convolution.fp32_precision == "tf32"
    finally:
        convolution.fp32_precision = before
