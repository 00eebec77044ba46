"""Members of a sweep over several hosts, and the comparison of their software. Only `here` is not pure."""

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata

from kbench.build.interpreter import package_sha256
from kbench.core.version import __version__
from kbench.devices.selection import DeviceChoice

NAMES = {"kbench": "kbench", "python": "Python", "torch": "torch", "driver": "the NVIDIA driver"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Software that a verdict or a time depends on; torch's version names its CUDA (`2.11.0+cu130`)."""

    kbench: str
    python: str
    torch: str
    driver: str
    """Empty on a host without an NVIDIA driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One device of one host."""

    host: str
    device: DeviceChoice
    versions: Versions

    @property
    def name(self) -> str:
        """Host and device, for messages."""
        return f"{self.host}:{self.device.uuid}"


def here(driver: str) -> Versions:
    """Return the versions on this host, without importing torch."""
    return Versions(
        kbench=f"{__version__} (files {package_sha256()[:12]})",
        python=platform.python_version(),
        torch=metadata.version("torch"),
        driver=driver,
    )


def remedy(wanted: Versions) -> str:
    """Return the commands that install the wanted versions on a host."""
    torch, _, build = wanted.torch.partition("+")
    index = f" --index-url https://download.pytorch.org/whl/{build}" if build else ""
    return (
        f"on the host that differs: Python {wanted.python}, `pip install torch=={torch}{index}`, "
        "`pip install '.[ray]'` in a checkout of this commit; or `ray stop` there, to leave it out"
    )


def differences(members: Sequence[Member]) -> list[str]:
    """Return a sentence for each version or device model in which a member differs from the first one."""
    first = members[0]
    found = []
    for member in members[1:]:
        theirs, ours = asdict(member.versions), asdict(first.versions)
        hosts = member.host, first.host
        found += [_apart(NAMES[name], theirs[name], ours[name], *hosts) for name in NAMES if theirs[name] != ours[name]]
        if member.device.name != first.device.name:
            found.append(_apart("the device", member.device.name, first.device.name, *hosts))
    return list(dict.fromkeys(found))


def _apart(what: str, one: str, other: str, here: str, there: str) -> str:
    return f"{what} is {one or 'missing'} on {here} and {other or 'missing'} on {there}"
