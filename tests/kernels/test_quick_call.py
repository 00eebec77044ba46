"""What a champion's forward looks at in each call, and what it keeps by sizes."""

import pytest
import torch

from kbench.kernels import conv_norm_logsumexp, conv_norm_pool
from kbench.kernels.quick_call import are_plain, wants_gradient

CPU = -1  # the number that torch gives a tensor's device there
SIZES = [torch.Size(size) for size in ((2, 8, 32, 40), (64, 8, 3, 3), (64,), (64,), (64,))]


def test_plain_tensors_are_contiguous_fp32_on_the_device() -> None:
    """All of them, or a kernel would read something else."""
    plain = torch.ones(4, 6)
    assert are_plain((plain, plain[:2]), CPU)
    assert not are_plain((plain, plain.t()), CPU)
    assert not are_plain((plain, plain.double()), CPU)
    assert not are_plain((plain,), 0)


def test_a_gradient_is_wanted_where_torch_records() -> None:
    """Not without gradients enabled, nor where nothing needs one."""
    parameter = torch.ones(1, requires_grad=True)
    assert wants_gradient((torch.ones(1), parameter))
    assert not wants_gradient((torch.ones(1),))
    with torch.no_grad():
        assert not wants_gradient((parameter,))


def test_sizes_give_the_output_and_the_kernels_numbers() -> None:
    """As the general path has them; one scale and one a channel are both taken."""
    for scale in ((64, 1, 1), (1,), (1, 64, 1, 1)):
        size, numbers = conv_norm_pool._sizes(*SIZES, torch.Size(scale), 16, (4, 4))
        assert size == (2, 64, 7, 9)
        assert numbers == (2, 8, 32, 40, 64, 16)


@pytest.mark.parametrize(
    ("place", "size"),
    [(0, (2, 7, 32, 40)), (0, (2, 8, 2, 40)), (2, (63,)), (3, (64, 1)), (4, ()), (5, (64,)), (5, (64, 1, 2))],
)
def test_sizes_that_do_not_go_together_are_refused_each_time(place: int, size: tuple[int, ...]) -> None:
    """What is kept are answers, not refusals."""
    sizes = [*SIZES, torch.Size((64, 1, 1))]
    sizes[place] = torch.Size(size)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"must|expects|fit"):
            conv_norm_pool._sizes(*sizes, 16, (4, 4))
        if place < len(SIZES):
            with pytest.raises(ValueError, match=r"must|expects|fit"):
                conv_norm_logsumexp._sizes(0, *sizes[: len(SIZES)], 16)


def test_groups_that_do_not_divide_the_channels_are_refused() -> None:
    """By either operator."""
    with pytest.raises(ValueError, match="groups"):
        conv_norm_pool._sizes(*SIZES, torch.Size((1,)), 15, (4, 4))
    with pytest.raises(ValueError, match="groups"):
        conv_norm_logsumexp._sizes(0, *SIZES, 15)
