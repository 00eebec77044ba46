"""What a call allocates on a processor: poison where nobody wrote, and only while it is asked for."""

import random

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


@pytest.mark.parametrize("numel", [1024, 4096, 100_000, 3_000_000])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64])
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


def test_a_whole_number_is_no_poison_of_the_host() -> None:
    assert not is_poison(torch.full((100,), -1, dtype=torch.int32)).any()
