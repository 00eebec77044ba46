"""What a profile of one call is taken for: whose kernels ran, how long, and what that means for `--require-custom`."""

import pytest

from kbench.core.kernel_names import Activity
from kbench.core.model import Status
from kbench.judge.refusal import RefusalError
from kbench.judge.timing.profile import Profile, activities
from kbench.wire.channel import WireError


def activity(name="mine", start_ns=0, duration_ns=1000):
    return Activity(name=name, start_ns=start_ns, duration_ns=duration_ns)


def test_the_difference_is_told_and_gaps_are_named():
    seen = (activity(duration_ns=40_000), activity(start_ns=60_000, duration_ns=40_000))
    kernels, times = Profile(seen=seen, device="cuda").findings(105_000.0)
    assert kernels.code == "kernels"
    assert "2 own" in kernels.message
    assert times.code == "crosscheck_cupti"
    assert "events 105.0 us, kernels 80.0 us, difference +25.0 us (+23.8 %)" in times.message
    assert "idle for 20.0 us" in times.message


def test_without_a_time_only_the_kernels_are_listed():
    assert [finding.code for finding in Profile(seen=(activity(),), device="cuda").findings(None)] == ["kernels"]


def test_where_nothing_could_be_seen_that_is_said():
    (finding,) = Profile(seen=(), device="cpu", reason="CUPTI sees GPUs only").findings(1e6)
    assert "CUPTI sees GPUs only" in finding.message
    assert not finding.fatal


@pytest.mark.parametrize(
    ("names", "device", "status"),
    [
        (["mine", "ampere_sgemm_128x64_tn"], "cuda", None),
        (["ampere_sgemm_128x64_tn"], "cuda", Status.LIBRARY_ONLY),
        (["triton_poi_fused_gelu_0", "Memset (Device)"], "cuda", Status.LIBRARY_ONLY),
        ([], "cuda", Status.NOT_VERIFIED),
        ([], "cpu", None),
    ],
)
def test_require_custom(names, device, status):
    profile = Profile(seen=tuple(activity(name) for name in names), device=device)
    if status is None:
        profile.require_custom()
    else:
        with pytest.raises(RefusalError) as refused:
            profile.require_custom()
        assert refused.value.status is status


@pytest.mark.parametrize(
    "forged", [None, "mine", [["mine", 0]], [["mine", -1, 5]], [["mine", 0, -5]], [[1, 0, 5]], [["mine", 0.5, 5]]]
)
def test_a_forged_list_is_refused(forged):
    with pytest.raises(WireError):
        activities(forged)


def test_a_list_as_workers_send_it():
    assert activities([["mine", 0, 1000]]) == (activity(),)
