"""The GPU solutions that kbench ships: its own verdict on them, and what no case of their problems shows."""

import importlib
from typing import Any

import convolutions
import pytest
import torch
from convolutions import LOGSUMEXP, POOL, oracle_error
from require import WITH_CUDA
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from verdicts import entries, verdicts

from kbench.core.model import Passed

pytestmark = [*WITH_CUDA, pytest.mark.usefixtures("ieee_reference")]

NORM = "group_norm"
CHAMPION = "fused_wgmma"
HAS_WGMMA = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
CHAMPIONS = (CHAMPION,) if HAS_WGMMA else ()
SOLUTIONS = {
    POOL: ("fused_norm_scale", "all_custom", "triton", *CHAMPIONS),
    LOGSUMEXP: ("fused_norm_activation_residual", "custom_conv_norm_logsumexp", "triton", *CHAMPIONS),
    NORM: ("two_kernel", "single_pass", "triton"),
}
EACH = [(problem, name) for problem, names in SOLUTIONS.items() for name in names]


@pytest.mark.slow(seconds=60)
@pytest.mark.parametrize("case", ["default", "small", "ragged"])
@pytest.mark.parametrize("problem", SOLUTIONS)
def test_each_holds_every_level(tmp_path, problem, case):
    """Other values, weights, layouts and shapes, infinities, equal bits in equal calls, and inputs left alone."""
    names = SOLUTIONS[problem]
    found = verdicts(*entries(problem, *names), device="cuda", cases=(case,), results_dir=tmp_path)
    outcomes = {name: one.outcome for name, one in found.items()}
    levels = {name: one.level if isinstance(one, Passed) else one.status for name, one in outcomes.items()}
    assert levels == dict.fromkeys(names, "general"), outcomes


SHAPES: dict[str, list[Any]] = {
    POOL: [
        {"batch_size": 1, "in_channels": 1, "out_channels": 3, "num_groups": 3, "height": 9, "width": 7},
        {"batch_size": 2, "in_channels": 3, "out_channels": 70, "num_groups": 2, "height": 20, "width": 45},
        {"batch_size": 2, "kernel_size": (1, 5), "height": 12, "width": 40, "maxpool_kernel_size": (5, 2)},
        {"batch_size": 2, "in_channels": 70, "kernel_size": 7, "height": 30, "width": 31},
        {"batch_size": 67, "height": 33, "width": 60},
        {"batch_size": 133, "height": 30, "width": 32},
        {"batch_size": 3, "height": 6, "width": 6},
        {"batch_size": 5, "height": 41, "width": 200},
        {"batch_size": 2, "height": 250, "width": 30},
        {"batch_size": 2, "height": 77, "num_groups": 1},
        {"batch_size": 2, "height": 300, "width": 300},
    ],
    LOGSUMEXP: [
        {"batch_size": 1, "in_channels": 1, "out_channels": 1, "groups": 1, "height": 4, "width": 5},
        {"batch_size": 2, "in_channels": 3, "out_channels": 70, "groups": 2, "height": 20, "width": 45},
        {"batch_size": 2, "kernel_size": (1, 5), "height": 12, "width": 40},
        {"batch_size": 2, "in_channels": 70, "kernel_size": 7, "height": 30, "width": 31},
        {"batch_size": 2, "in_channels": 2, "kernel_size": 13, "height": 20, "width": 21},
        {"batch_size": 3, "in_channels": 3, "height": 17, "width": 300, "out_channels": 40, "groups": 40},
        {"batch_size": 300, "height": 9, "width": 9},
        # Enough of a batch for statistics from correlations of the input.
        {"batch_size": 133, "in_channels": 5, "height": 33, "width": 61, "out_channels": 21, "groups": 7},
        {"batch_size": 100, "height": 40, "groups": 1},
        {"batch_size": 140, "in_channels": 1, "height": 32, "width": 16, "out_channels": 2, "groups": 1},
    ],
    # Batch, channels, groups, and what is spatial: of one to four dimensions.
    NORM: [
        (2, 6, 3),
        (1, 4, 1, 1),
        (5, 12, 4, 7),
        (4, 16, 4, 5, 6, 8),
        (3, 32, 1, 56, 56),
        (2, 8, 8, 300, 302),
        (7, 10, 5, 33, 128),
        (300, 64, 32, 12, 12),
        (1, 8, 1, 4096, 1024),
    ],
}


def build(problem: str, name: str, shape: Any, patch: pytest.MonkeyPatch) -> tuple[nn.Module, nn.Module, Tensor]:
    """Return reference and solution with equal random parameters on the device, and an input of a shape."""
    if problem == NORM:
        batch, channels, groups, *spatial = shape
        model = importlib.import_module(f"kbench.problems.{NORM}").Model(channels, groups).cuda()
        candidate = importlib.import_module(f"kbench.solutions.{NORM}.{name}").ModelNew(channels, groups).cuda()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_()
        candidate.load_state_dict(model.state_dict())
        return model, candidate, torch.randn(batch, channels, *spatial, device="cuda")
    if problem == POOL:
        # No maximum is close enough to a bound to change sides.
        shape = {**shape, "scale_shape": (shape.get("out_channels", 64), 1, 1), "clamp_min": -1e3, "clamp_max": 1e3}
    return convolutions.build(problem, name, shape, patch)


def check(problem: str, model: nn.Module, candidate: nn.Module, x: Tensor) -> None:
    """Hold a solution to the distance from fp64 that the rule allows."""
    with torch.no_grad():
        out, reference = candidate(x), model(x)
        exact = model.double()(x.double())
    assert out.shape == reference.shape
    factor = 4 if problem == NORM else 16
    assert oracle_error(out, exact) <= max(1.0, factor * oracle_error(reference, exact))


@pytest.mark.parametrize(("problem", "name"), EACH)
def test_shapes_that_no_case_has(problem, name, monkeypatch):
    for shape in SHAPES[problem]:
        with monkeypatch.context() as patch:
            check(problem, *build(problem, name, shape, patch))
    empty = (0, 16, 8, 8, 8) if problem == NORM else {"batch_size": 0, "height": 12, "width": 12}
    model, candidate, x = build(problem, name, empty, monkeypatch)
    assert candidate(x).shape == model(x).shape


def apart(x: Tensor, places: tuple[Any, ...], value: float) -> Tensor:
    x = torch.randn_like(x)
    x[places] += value
    return x


WIDE = {
    "tiny": lambda x: x * 1e-6,
    "large": lambda x: torch.randn_like(x) * 1e6,
    "far from zero": lambda x: torch.randn_like(x) - 100,
    "constant": lambda x: torch.full_like(x, 3.7),
    "one pixel apart": lambda x: apart(x, (1, 2, 20, 11), 1e7),
}
"""Inputs that a split of fp32 values into two of fp16 does not hold by itself."""
OFF_CENTRE = {
    "a first channel apart": lambda x: apart(x, (slice(None), slice(None, None, 4)), 1000),
    "a first value apart": lambda x: apart(x, (slice(None), slice(None), 0, 0), 1e6),
}
"""Inputs of which a first channel or value is a poor centre."""
CHOSEN = [(problem, CHAMPION, kind) for problem in (POOL, LOGSUMEXP) for kind in WIDE if HAS_WGMMA]
CHOSEN += [(NORM, name, kind) for name in SOLUTIONS[NORM] for kind in OFF_CENTRE]


@pytest.mark.parametrize(("problem", "name", "kind"), CHOSEN)
def test_inputs_of_any_magnitude(problem, name, kind, monkeypatch):
    shape = (3, 16, 4, 64, 64) if problem == NORM else {"batch_size": 6, "height": 64, "width": 64}
    model, candidate, x = build(problem, name, shape, monkeypatch)
    check(problem, model, candidate, {**WIDE, **OFF_CENTRE}[kind](x))


RAGGED = {"batch_size": 3, "in_channels": 5, "out_channels": 21, "height": 41, "width": 35}


@pytest.mark.parametrize(("problem", "name"), EACH)
def test_gradients_agree_with_fp64(problem, name, monkeypatch):
    groups = {POOL: "num_groups", LOGSUMEXP: "groups"}
    shape = (3, 15, 5, 37, 29) if problem == NORM else {**RAGGED, groups[problem]: 7}
    model, candidate, x = build(problem, name, shape, monkeypatch)
    x = torch.randn_like(x)
    model.double()
    mine, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    out, exact = candidate(mine), model(theirs)
    upstream = torch.randn_like(out)
    out.backward(upstream)
    exact.backward(upstream.double())
    own = dict(candidate.named_parameters())
    for ours, true in [(mine, theirs), *((own[key], value) for key, value in model.named_parameters())]:
        assert (ours.grad.double() - true.grad).abs().max() <= 2e-4 * true.grad.abs().max()


class Recorder(TorchDispatchMode):
    """The operators that torch dispatches."""

    def __init__(self):
        super().__init__()
        self.operators = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


ALLOCATION_AND_VIEWS = {"empty", "new_empty", "empty_strided", "view", "reshape", "_reshape_alias", "alias", "detach"}


def test_all_custom_dispatches_no_torch_computation(monkeypatch):
    _, candidate, x = build(POOL, "all_custom", {"batch_size": 2, "height": 32, "width": 32}, monkeypatch)
    with torch.no_grad(), Recorder() as recorder:
        candidate(x)
    assert recorder.operators <= ALLOCATION_AND_VIEWS
    with torch.no_grad(), Recorder() as control:
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


def test_the_single_pass_kernel_takes_what_it_should():
    """Otherwise the tests above would test the fallback."""
    from kbench.kernels import group_norm_single_pass

    def taken(*shape: int, groups: int) -> bool:
        return group_norm_single_pass.plan_for(torch.empty(shape, device="cuda"), groups) is not None

    if torch.cuda.get_device_capability() < group_norm_single_pass.MIN_CAPABILITY:
        pytest.skip("no bulk copies on this device")
    assert taken(112, 64, 512, 512, groups=8)
    assert taken(2, 64, 64, 64, groups=8)
    assert taken(3, 32, 56, 56, groups=1)
    assert not taken(3, 15, 37, 29, groups=5)
    assert not taken(1, 8, 4096, 4096, groups=1)


@pytest.mark.parametrize("name", SOLUTIONS[NORM])
def test_a_call_can_be_captured_in_a_graph(name, monkeypatch):
    _, candidate, x = build(NORM, name, (2, 16, 4, 64, 64), monkeypatch)
    with torch.no_grad():
        expected = candidate(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = candidate(x)
        graph.replay()
        torch.cuda.synchronize()
    assert torch.equal(result, expected)
