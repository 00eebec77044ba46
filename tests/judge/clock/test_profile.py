"""What a profile of one call is taken for: whose kernels ran, how long, and what that means for `--require-custom`."""

import contextlib
from types import SimpleNamespace

import pytest

from kbench.core.model import Status
from kbench.core.trace import DeviceActivity
from kbench.devices.cuda import Cuda
from kbench.judge.clock.profile import (
    activities,
    kernels_in_words,
    own_share,
    profile_judged,
    profile_warm,
    require_custom,
)
from kbench.judge.refusal import RefusalError
from kbench.process.channel import WireError


def activity(name="mine", start_ns=0, duration_ns=1000):
    return DeviceActivity(name=name, start_ns=start_ns, duration_ns=duration_ns)


def test_the_kernels_are_listed_by_origin():
    seen = (activity(duration_ns=40_000), activity(start_ns=60_000, duration_ns=40_000))
    assert kernels_in_words(seen, "cuda") == "one call ran 2 own (100 % of the time): mine (own)"


@pytest.mark.parametrize(
    ("names", "share"), [(["mine", "ampere_sgemm_128x64_tn"], 0.5), (["ampere_sgemm_128x64_tn"], 0.0), ([], None)]
)
def test_the_share_of_own_kernels(names, share):
    assert own_share([activity(name) for name in names]) == share


class FakeTrial:
    """A bound candidate that writes down what it is asked, and whose profiled call has one kernel of its own."""

    def __init__(self):
        self.asked = []
        self.reference = SimpleNamespace(expect=lambda arguments: arguments, device="cuda")
        self.arena = SimpleNamespace(count=1)
        self.candidate = SimpleNamespace(
            ask=self.ask, limit_s=10.0, check_outputs=lambda *_: (), understood=contextlib.nullcontext
        )
        self.listed = [["mine", 0, 1000]]

    def arguments(self):
        return "arguments"

    def fill(self, slots, _expected):
        self.asked.append(f"fill {slots}")

    def ask(self, message, timeout_s):
        assert timeout_s > self.candidate.limit_s
        self.asked.append(f"{message['op']} {message['slot']}")
        return {"activities": self.listed, "outputs": ["described"]}

    def keep_scalars(self, _slot, _numbers):
        pass

    def call(self, _expected):
        self.asked.append("call")

    def judge_values(self, slot, _expected):
        self.asked.append(f"judge {slot}")


@pytest.fixture(autouse=True)
def without_a_device(monkeypatch):
    monkeypatch.setattr(Cuda, "synchronize", lambda _: None)


def test_what_is_asked_for_is_checked_and_what_only_the_column_needs_is_warm():
    """A wrong value in a profiled call counts only where the user asks for the profile."""
    asked, column = FakeTrial(), FakeTrial()
    profile_judged(asked)
    assert asked.asked == ["fill [0]", "profile 0", "judge 0"]
    assert own_share(profile_warm(column)) == 1.0
    assert column.asked == ["call", "call", "call", "fill [0]", "profile 0"]


@pytest.mark.parametrize("take", [profile_judged, profile_warm])
def test_nonsense_in_place_of_kernels_is_refused(take):
    trial = FakeTrial()
    trial.listed = [["mine", 0, "long"]]
    with pytest.raises(WireError):
        take(trial)


def test_kernels_that_could_not_be_listed_have_a_reason():
    assert kernels_in_words((), "cpu") == "kernels could not be listed: CUPTI sees GPUs only"


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
    seen = [activity(name) for name in names]
    if status is None:
        require_custom(seen, device, "")
    else:
        with pytest.raises(RefusalError) as refused:
            require_custom(seen, device, "")
        assert refused.value.status is status


@pytest.mark.parametrize(
    "forged", [None, "mine", [["mine", 0]], [["mine", -1, 5]], [["mine", 0, -5]], [[1, 0, 5]], [["mine", 0.5, 5]]]
)
def test_a_forged_list_is_refused(forged):
    with pytest.raises(WireError):
        activities(forged)


def test_a_list_as_workers_send_it():
    assert activities([["mine", 0, 1000]]) == (activity(),)
