"""What tests of the convolution problems' kernels share: reference and solution with equal parameters, and errors."""

import importlib
from typing import Any

import pytest
import torch
from torch import Tensor, nn

POOL = "conv2d_group_norm_scale_max_pool_clamp"
LOGSUMEXP = "conv2d_group_norm_tanh_hardswish_residual_logsumexp"


def build(
    problem: str, name: str, case: dict[str, Any], patch: pytest.MonkeyPatch, device: str = "cuda"
) -> tuple[nn.Module, nn.Module, Tensor]:
    """Return reference and solution with equal random parameters on the device, and the problem's input."""
    module = importlib.import_module(f"kbench.problems.{problem}")
    solution = importlib.import_module(f"kbench.solutions.{problem}.{name}")
    for key, value in case.items():
        patch.setattr(module, key, value)
    with torch.device(device):
        model, candidate = module.Model(*module.get_init_inputs()), solution.ModelNew(*module.get_init_inputs())
        (x,) = module.get_inputs()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.2 if parameter.dim() == 4 else 1.0))
    candidate.load_state_dict(model.state_dict())
    return model, candidate, x


def oracle_error(out: Tensor, oracle: Tensor) -> float:
    """Return the largest error in units of the tolerance, over finite values; NaN must be where the oracle has it."""
    assert torch.equal(out.isnan(), oracle.isnan())
    finite = ~oracle.isnan()
    if not finite.any():
        return 0.0
    out, oracle = out[finite].double(), oracle[finite]
    floor = 1e-5 * min(1.0, oracle.square().mean().sqrt().item())
    return ((out - oracle).abs() / (floor + 1e-5 * oracle.abs())).max().item()
