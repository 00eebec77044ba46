"""Devices that failed a probe: one marker file each in the cache, until a user removes it."""

import contextlib
import dataclasses
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kbench.core.errors import MachineError
from kbench.storage import json_values

FOLDER = "quarantine"
FIX = "reset the device (`nvidia-smi --gpu-reset -i {uuid}`) or reboot, then `kbench doctor --clear-quarantine`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Why a device is not used, and since when."""

    uuid: str
    name: str
    reason: str
    since_utc: str

    @property
    def message(self) -> str:
        """The message, in one line."""
        return f"{self.name} is quarantined since {self.since_utc}: {self.reason}"

    @property
    def fix(self) -> str:
        """The hint: what to type."""
        return FIX.format(uuid=self.uuid)


def impose(cache_dir: Path, *, uuid: str, name: str, reason: str) -> Quarantine:
    """Mark a device and return the mark; an earlier mark stays. Without a writable cache nothing is stored."""
    found = read(cache_dir, uuid)
    if found is not None:
        return found
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    quarantine = Quarantine(uuid=uuid, name=name, reason=reason, since_utc=stamp)
    with contextlib.suppress(OSError):  # this run has the mark; the next one probes again
        json_values.write(_path(cache_dir, uuid), dataclasses.asdict(quarantine))
    return quarantine


def read(cache_dir: Path, uuid: str) -> Quarantine | None:
    """Return a device's mark, or None; a marker that cannot be read counts too."""
    path = _path(cache_dir, uuid)
    try:
        return Quarantine(**json.loads(path.read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError):
        return Quarantine(uuid=uuid, name=uuid, reason=f"{path} cannot be read", since_utc="an unknown time")


def lift(cache_dir: Path, uuid: str) -> None:
    """Remove a device's mark, if there is one."""
    _path(cache_dir, uuid).unlink(missing_ok=True)


def refuse(cache_dir: Path, uuid: str) -> None:
    """Raise MachineError for a device that is quarantined."""
    found = read(cache_dir, uuid)
    if found is not None:
        raise MachineError(found.message, found.fix)


def _path(cache_dir: Path, uuid: str) -> Path:
    return cache_dir / FOLDER / f"{uuid.replace('/', '_')}.json"
