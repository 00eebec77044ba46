"""What a call allocates on a processor: poison where nobody wrote, and only while it is asked for."""

import os
import random
import subprocess
import sys

import pytest
import torch

from kbench.devices.cpu import Cpu
from kbench.devices.poison import is_poison


def used_heap(numel: int) -> None:
    """Leave free memory of many sizes that a solution may have used, with numbers in it."""
    rng = random.Random(numel)
    used = [torch.ones(rng.choice([numel, numel + rng.randrange(64), rng.randrange(1, 2 * numel)])) for _ in range(200)]
    rng.shuffle(used)
    del used[::2]


@pytest.mark.parametrize(
    ("numel", "dtype"),
    [
        (1024, torch.float16),
        (1024, torch.complex64),
        (100_000, torch.bfloat16),
        (100_000, torch.float64),
        (1_000_000, torch.float32),
    ],
)
def test_allocated_memory_is_poison(numel, dtype) -> None:
    used_heap(numel)
    with Cpu().filled():
        output = torch.empty(numel, dtype=dtype)
    assert is_poison(output).all()
    assert output.isnan().all()


def test_memory_is_as_it_was_afterwards() -> None:
    with pytest.raises(ValueError, match="the call failed"), Cpu().filled():
        raise ValueError("the call failed")
    larger_than_what_was_filled = torch.empty(20_000_000)
    assert not is_poison(larger_than_what_was_filled).all()


FIRST_CALLS = """
import os, numpy, torch
from kbench.devices.backend import backend

x = torch.from_numpy(numpy.linspace(0.01, 0.3, 82_944, dtype="float32"))
backend("cpu").settle()
for _ in range(60):
    if not (child := os.fork()):
        torch.mm(torch.ones(288, 288), torch.ones(288, 288))  # starts the threads
        os._exit(not torch.equal(torch.tanh(x), torch.tanh(x)))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_two_threads_make_the_first_call_of_a_vector_function_as_one_would() -> None:
    """Without `settle` 8 of 300 first calls of `tanh` differed from the second: this script with more processes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["0"] * 60
