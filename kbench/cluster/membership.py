"""Members of a sweep over several hosts, and the comparison of their software. Only `here` is not pure."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

from kbench.build.interpreter import package_sha256
from kbench.core.version import __version__
from kbench.devices.selection import DeviceChoice

DRIVER = "the NVIDIA driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One device of one host."""

    host: str
    device: DeviceChoice
    versions: Mapping[str, str]
    """Software that a verdict or a time depends on, by its name; torch's names its CUDA (`2.11.0+cu130`)."""

    @property
    def name(self) -> str:
        """Host and device, for messages."""
        return f"{self.host}:{self.device.uuid}"


def here(driver: str) -> dict[str, str]:
    """Return the versions on this host, without importing torch; `driver` is empty without an NVIDIA driver."""
    return {
        "kbench": f"{__version__} (files {package_sha256()[:12]})",
        "Python": platform.python_version(),
        "torch": metadata.version("torch"),
        DRIVER: driver,
    }


REMEDY = "install the same on the host that differs, and a checkout of this commit; or leave it out: `ray stop`"


def differences(members: Sequence[Member]) -> list[str]:
    """Return a sentence for each version or device model in which a member differs from the first one."""
    first = members[0]
    found = []
    for member in members[1:]:
        theirs, ours = ({**one.versions, "the device": one.device.name} for one in (member, first))
        found += [
            f"{name} is {theirs[name] or 'missing'} on {member.host} and {ours[name] or 'missing'} on {first.host}"
            for name in ours
            if theirs[name] != ours[name]
        ]
    return list(dict.fromkeys(found))
