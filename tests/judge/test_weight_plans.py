"""Which ways of giving weights are tried, and in which order."""

import pytest

from kbench.judge.matching import Copied, WeightPlan, further_plans

ALL, ALL_BUT_BUFFERS, NOTHING = Copied


@pytest.mark.parametrize(
    ("first", "matched", "differing", "buffers", "gpu", "further"),
    [
        (ALL, True, False, False, True, []),  # a wrong solution whose weights are the reference's
        (ALL, True, True, False, False, [NOTHING]),  # parameters of another meaning at equal places
        (ALL, True, True, True, False, [ALL_BUT_BUFFERS, NOTHING]),  # a table in another layout
        (ALL, True, True, True, True, [ALL_BUT_BUFFERS, NOTHING, ALL, ALL_BUT_BUFFERS, NOTHING]),
        (ALL, False, False, False, False, []),  # other names and shapes, and one generator on a CPU
        (ALL, False, False, False, True, [ALL]),  # drawn on the CPU and moved, as `torch.Tensor(n).uniform_()`
        (NOTHING, False, False, False, True, [NOTHING]),  # a first call folds a scale into the parameters
    ],
)
def test_plans_in_order(first, matched, differing, buffers, gpu, further) -> None:
    found = further_plans(
        WeightPlan(copied=first), matched=matched, differing=differing, differing_buffers=buffers, has_own_memory=gpu
    )
    assert [plan.copied for plan in found] == further
    on_cpu = [plan.on_cpu for plan in found]
    assert on_cpu == sorted(on_cpu), "the device first"
    assert len(set(found)) == len(found)
    assert WeightPlan(copied=first) not in found
