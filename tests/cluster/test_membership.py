"""Members of a cluster: the software and the devices of all must be the same; and who gets what."""

from dataclasses import replace

import pytest
from sweeping import task

from kbench.cluster.executor import assign, require_same
from kbench.cluster.membership import DRIVER, Member, differences, here
from kbench.core.errors import UsageError
from kbench.core.version import __version__
from kbench.devices import selection

VERSIONS = {"kbench": "0.1.0", "Python": "3.12.3", "torch": "2.11.0+cu130", DRIVER: "580.1"}
FIRST = Member(host="a", device=selection.cpu(), versions=VERSIONS)


def member(**versions: str) -> Member:
    return replace(FIRST, host="b", versions={**VERSIONS, **versions})


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (member(), []),
        (member(kbench="0.2.0"), ["kbench is 0.2.0 on b and 0.1.0 on a"]),
        (member(Python="3.11.7"), ["Python is 3.11.7 on b and 3.12.3 on a"]),
        (member(torch="2.11.0+cu128"), ["torch is 2.11.0+cu128 on b and 2.11.0+cu130 on a"]),
        (member(**{DRIVER: ""}), ["the NVIDIA driver is missing on b and 580.1 on a"]),
        (
            replace(FIRST, host="b", device=replace(FIRST.device, name="H100")),
            [f"the device is H100 on b and {FIRST.device.name} on a"],
        ),
    ],
)
def test_differences_are_named(other: Member, told: list[str]) -> None:
    assert differences([FIRST, other, other]) == told


def test_versions_are_known_without_importing_torch() -> None:
    found = here("")
    assert found["kbench"].startswith(f"{__version__} (files ")
    assert found["torch"]


def test_a_member_must_have_the_software_of_this_host_and_is_told_what_to_type() -> None:
    same = replace(FIRST, versions=here(""))
    require_same([same, replace(same, host="b")])
    other = replace(same, host="b", versions={**same.versions, "torch": "2.9.1+cu128"})
    with pytest.raises(UsageError, match=r"torch is 2\.9\.1\+cu128 on b and ") as refused:
        require_same([same, other])
    assert "ray stop" in refused.value.hint
    assert "ray stop" in refused.value.hint
    alone = replace(same, versions={**same.versions, "kbench": "0.1.0 (files of another commit)"})
    with pytest.raises(UsageError, match=r"kbench is .* on .* \(this host\)"):
        require_same([alone])


TASKS = [task(1), task(2), task(3, problem="q"), task(4, problem="q")]
P, Q = str(TASKS[0].problem.path), str(TASKS[2].problem.path)


@pytest.mark.parametrize(
    ("waiting", "losses", "flying", "problem", "given"),
    [
        (TASKS, {}, [], None, ["k1"]),  # the last tasks are spread over all lanes
        (TASKS, {}, ["k0"], Q, ["k3"]),  # one batch ahead, of the problem that is open
        (TASKS, {}, ["k8", "k9"], None, []),  # busy
        ([], {}, [], None, []),
        (TASKS[:2], {"k1": 1}, [], None, ["k2"]),  # what was lost comes last,
        (TASKS[:1], {"k1": 1}, ["k0"], None, []),  # alone,
        (TASKS[:1], {"k1": 1}, [], None, ["k1"]),
        (TASKS[1:], {"k1": 1}, ["k1"], None, []),  # and stays alone
    ],
)
def test_who_gets_what(waiting, losses, flying, problem, given) -> None:
    chosen = assign(waiting, losses, flying, problem, lanes=1, all_lanes=2)
    assert [one.key for one in chosen] == given
