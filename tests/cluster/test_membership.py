"""Members of a cluster: the software and the devices of all must be the same."""

from dataclasses import replace

import pytest

from kbench.cluster.membership import Member, Versions, differences, here
from kbench.core.version import __version__
from kbench.devices import selection

VERSIONS = Versions(kbench="0.1.0", python="3.12.3", torch="2.11.0+cu130", driver="580.1")
FIRST = Member(host="a", device=selection.cpu(), versions=VERSIONS)


def member(**versions: str) -> Member:
    return replace(FIRST, host="b", versions=replace(VERSIONS, **versions))


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (member(), []),
        (member(kbench="0.2.0"), ["kbench is 0.2.0 on b and 0.1.0 on a"]),
        (member(python="3.11.7"), ["Python is 3.11.7 on b and 3.12.3 on a"]),
        (member(torch="2.11.0+cu128"), ["torch is 2.11.0+cu128 on b and 2.11.0+cu130 on a"]),
        (member(driver=""), ["the NVIDIA driver is missing on b and 580.1 on a"]),
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
    assert found.kbench == __version__
    assert found.torch
