"""Shared memory: layouts of odd tensors, and seals that a peer cannot break."""

import contextlib
import errno
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.process.shared_memory import ALIGNMENT, Block, TensorSpec, lay_out, view


@contextlib.contextmanager
def shared(tensors: list[torch.Tensor], offset: int = 0) -> Iterator[tuple[Block, Block, list[TensorSpec]]]:
    """Lay tensors out in a block, copy them in, and map the block a second time as a worker would."""
    specs, end = lay_out(tensors, offset)
    block = Block.allocate(end, "cpu")
    for tensor, spec in zip(tensors, specs, strict=True):
        view(spec, block.bytes).copy_(tensor)
    (mapped,) = Block.attach_all([block.descriptor], [os.dup(block.fd)])
    yield block, mapped, specs
    block.close()
    mapped.close()


ODD = {
    "plain": lambda: torch.randn(3, 5),
    "scalar": lambda: torch.tensor(2.5),
    "empty": lambda: torch.empty(4, 0, 2),
    "transposed": lambda: torch.randn(4, 6).t(),
    "channels_last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "every_other": lambda: torch.randn(5, 8)[:, ::2],
    "slice_of_a_larger_one": lambda: torch.randn(9, 9)[2:5, 3:7],
    "expanded": lambda: torch.randn(1, 5).expand(7, 5),
    "overlapping_windows": lambda: torch.randn(10).unfold(0, 3, 1),
    "expanded_size_one": lambda: torch.randn(1).expand(1, 1, 1),
    "bool": lambda: torch.rand(17) > 0.5,
    "bfloat16": lambda: torch.randn(3, 3).bfloat16(),
    "complex": lambda: torch.randn(3, dtype=torch.complex64).conj(),
    "int64": lambda: torch.arange(7),
    "fp8": lambda: torch.randn(9).to(torch.float8_e4m3fn),
}


@pytest.mark.parametrize("name", ODD)
def test_a_worker_sees_what_the_judge_wrote(name) -> None:
    tensor = ODD[name]()
    with shared([tensor]) as (_, theirs, (spec,)):
        seen = view(TensorSpec.from_json(json.loads(json.dumps(spec))), theirs.bytes)
        assert (seen.shape, seen.dtype) == (tensor.shape, tensor.dtype)
        assert torch.equal(seen.to(torch.complex128), tensor.to(torch.complex128))


def test_strides_are_kept_where_they_can_be() -> None:
    kept = ["transposed", "channels_last", "every_other"]
    for name in kept:
        tensor = ODD[name]()
        assert lay_out([tensor])[0][0].stride == tensor.stride(), name
    for name, stride in (("expanded", (5, 1)), ("overlapping_windows", (3, 1))):
        assert lay_out([ODD[name]()])[0][0].stride == stride, name


def test_tensors_do_not_overlap() -> None:
    tensors = [make() for make in ODD.values()]
    specs, end = lay_out(tensors)
    spans = [s.span for s in specs]
    assert all(begin % ALIGNMENT == 0 for begin, _ in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    assert spans[-1][1] <= end
    with shared(tensors) as (_, theirs, specs):
        for tensor, spec in zip(tensors, specs, strict=True):
            assert torch.equal(view(spec, theirs.bytes).to(torch.complex128), tensor.to(torch.complex128))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 4), max_size=3), st.lists(st.integers(0, 5), min_size=3, max_size=3))
def test_any_strides_hold_their_own_values(shape, stride) -> None:
    """Overlapping ones get room of their own, so that writing one element changes no other."""
    tensor = torch.randn(200).as_strided(shape, stride[: len(shape)])
    with shared([tensor]) as (ours, theirs, (spec,)):
        assert torch.equal(view(spec, theirs.bytes), tensor)
        view(spec, theirs.bytes).copy_(torch.arange(tensor.numel()).reshape(shape).float())
        assert torch.equal(view(spec, ours.bytes).flatten(), torch.arange(tensor.numel()).float())


def test_a_misaligned_layout() -> None:
    tensor = torch.randn(5)
    with shared([tensor], offset=4) as (_, theirs, (spec,)):
        assert spec.offset == 4
        assert view(spec, theirs.bytes).data_ptr() % ALIGNMENT == 4
        assert torch.equal(view(spec, theirs.bytes), tensor)


PEER = """
import errno, os, sys
fd, nbytes = int(sys.argv[1]), int(sys.argv[2])
for size in (0, nbytes // 2, nbytes * 2):
    try:
        os.ftruncate(fd, size)
    except OSError as error:
        print(error.errno)
    else:
        print("resized")
try:
    os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_TRUNC)
except OSError as error:
    print(error.errno)
else:
    print("truncated")
os.pwrite(fd, b"peer", 0)
"""


def test_a_peer_cannot_resize_the_block() -> None:
    """Shrinking it would kill the judge by SIGBUS when it reads."""
    block = Block.allocate(1 << 16, "cpu")
    peer = [sys.executable, "-c", PEER, str(block.fd), str(1 << 16)]
    done = subprocess.run(peer, pass_fds=[block.fd], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(errno.EPERM)] * 4
    assert os.fstat(block.fd).st_size == 1 << 16
    assert bytes(block.bytes[:4].tolist()) == b"peer"
    assert int(block.bytes[4:].sum()) == 0
    block.close()


def test_nobody_inherits_the_block() -> None:
    block = Block.allocate(64, "cpu")
    assert not os.get_inheritable(block.fd)
    fd = block.fd
    block.close()
    block.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)
