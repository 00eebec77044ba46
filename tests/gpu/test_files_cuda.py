"""On a real GPU: inputs and models that only the CPU makes, and launches that fail without anybody checking."""

import time

import pytest
import tiny_corpus
from require import WITH_CUDA
from verdicts import verdicts, written

from kbench.core.model import Failed, Passed, Status

pytestmark = WITH_CUDA

GENERATOR = "torch.Generator().manual_seed(7)"
PLAIN = {"constructor": "pass", "forward": "torch.relu(x) * more", "arguments": ""}


def pair(*, constructor: str, forward: str, inputs: str, arguments: str) -> tuple[str, str]:
    """Write a problem, and the same computation as its solution."""
    common = {"layers": constructor, "takes": "*arguments", "inputs": "x, more"}
    problem = tiny_corpus.problem(forward, given=inputs, constants="import numpy", **common)
    problem = problem.replace("return [*arguments]", f"return [{arguments}]")
    return problem, tiny_corpus.solution(f"return {forward}", head="import numpy", **common)


MADE_ON_THE_CPU = {
    "own generator": {**PLAIN, "inputs": f"torch.randn(64, 96, generator={GENERATOR}), torch.rand(96)"},
    "pinned": {**PLAIN, "inputs": "torch.randn(64, 96, pin_memory=True), torch.rand(96).pin_memory()"},
    "numpy": {**PLAIN, "inputs": "torch.from_numpy(numpy.random.randn(64, 96).astype('float32')), 2.0"},
    "through numpy": {**PLAIN, "inputs": "torch.tensor(torch.rand(64, 96).numpy() - 0.5), 2.0"},
    "nested": {
        **PLAIN,
        "forward": "torch.cat(x) @ (more['w'] * more['n'])",
        "inputs": "[torch.from_numpy(numpy.random.randn(n, 16).astype('float32')) for n in (12, 20)], "
        "{'w': torch.from_numpy(numpy.random.randn(16, 24).astype('float32')), 'n': 0.5}",
    },
    "a constructor with an own generator": {
        **PLAIN,
        "constructor": f"self.w = nn.Parameter(torch.randn(96, generator={GENERATOR}))",
        "forward": "torch.relu(x) * self.w * more",
        "inputs": "torch.randn(64, 96), 2.0",
    },
    "arguments through numpy": {
        **PLAIN,
        "constructor": "self.register_buffer('w', torch.tensor(arguments[0].numpy() + 1))",
        "forward": "torch.relu(x) * self.w * more",
        "inputs": "torch.randn(64, 96), 2.0",
        "arguments": "torch.rand(96)",
    },
}


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("name", MADE_ON_THE_CPU)
def test_what_only_the_cpu_makes_is_made_there_and_moved(tmp_path, name):
    given, same = pair(**MADE_ON_THE_CPU[name])
    problem, solutions = written(tmp_path, given, {"mine": same})
    outcome = verdicts(problem, solutions, device="cuda")["mine"].outcome
    assert isinstance(outcome, Passed), outcome


DOUBLED = tiny_corpus.problem("2 * x", given="torch.randn(256, 2000), 1.0", inputs="x, more")
SCALE = """
import os
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

{head}
SOURCE = r'''
#include <torch/extension.h>
__global__ void scale(const float* x, float* y, long n) {{
  extern __shared__ float tile[];
  const long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}}
torch::Tensor scaled(torch::Tensor x) {{
  auto y = torch::empty_like(x);
  scale<<<{launch}>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}}
'''
ext = load_inline("kbench_test_{name}", "torch::Tensor scaled(torch::Tensor x);", SOURCE, functions=["scaled"])

class ModelNew(nn.Module):
    def forward(self, x, more):
        return ext.scaled(x)
"""
GRID = "(x.numel() + 255) / 256, 256"
UNCHECKED = {
    "smem": ("", f"{GRID}, 262144", "invalid argument", "shared memory"),
    "arch": ("os.environ['TORCH_CUDA_ARCH_LIST'] = '8.0'", GRID, "no kernel image", "TORCH_CUDA_ARCH_LIST"),
    "block": ("", "(x.numel() + 255) / 256, 4096", "invalid argument", "block"),
    "grid": ("", "0, 256", "invalid argument", "grid"),
}


@pytest.mark.slow(seconds=90)
@pytest.mark.parametrize("name", UNCHECKED)
def test_a_launch_that_fails_unchecked_is_named_and_no_tool_looks_for_it(tmp_path, name):
    head, launch, said, cause = UNCHECKED[name]
    text = SCALE.format(name=name, head=head, launch=launch)
    problem, solutions = written(tmp_path, DOUBLED, {"mine": text})
    began = time.monotonic()
    outcome = verdicts(problem, solutions, device="cuda")["mine"].outcome
    assert isinstance(outcome, Failed)
    assert outcome.status in {Status.WRONG_VALUE, Status.UNWRITTEN_OUTPUT}, outcome
    assert "a launch failed, and the solution did not check it: CUDA reports" in outcome.reason
    assert said in outcome.reason
    assert cause in outcome.reason
    assert not [finding for finding in outcome.findings if finding.code == "sanitizer"]
    assert time.monotonic() - began < 120, "nvcc and one verdict"


@pytest.mark.slow(seconds=90)
def test_an_error_that_somebody_left_behind_refuses_no_right_values(tmp_path):
    """A library that asks for an optional feature leaves an error; the next kernel of torch was blamed for it."""
    text = SCALE.format(name="left", head="", launch=GRID)
    text = text.replace("  return y;", "  cudaSetDevice(12345);\n  return y;")
    problem, solutions = written(tmp_path, DOUBLED, {"mine": text})
    outcome = verdicts(problem, solutions, device="cuda")["mine"].outcome
    assert isinstance(outcome, Passed), outcome
