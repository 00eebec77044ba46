"""The device that `--device` names, found without importing torch, which would slow the command line."""

import hashlib
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kbench.core.errors import MachineError, NoGpuError, UsageError
from kbench.devices import nvml

AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChoice:
    """A device in the parent; children see only this one, as `cuda:0` or `cpu`."""

    kind: str
    """`cuda` or `cpu`."""
    name: str
    uuid: str
    key: str
    """Model and compute capability, on which artefacts built for this device depend."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that make the device the only one a child sees."""


def choose(text: str, option: str = "--device") -> DeviceChoice:
    """Resolve `auto`, `cpu`, `cuda` or `cuda:INDEX`. Raises MachineError if there is no such GPU."""
    kind, _, index = text.partition(":")
    if kind == "cpu" and not index:
        return cpu()
    if kind not in {"auto", "cuda"} or (index and not index.isdigit()):
        raise UsageError(f"`{text}` is not a device", "devices are auto, cpu, cuda and cuda:INDEX")
    gpus = visible_gpus()
    if not gpus and kind == "auto":
        return cpu()
    if not gpus:
        raise NoGpuError("no CUDA device found", f"pass `{option} cpu`, or see `kbench doctor`")
    number = int(index or 0)
    if number >= len(gpus):
        raise MachineError(f"there is no cuda:{number}", f"take one of cuda:0 to cuda:{len(gpus) - 1}")
    return gpus[number]


def choose_devices(text: str) -> tuple[DeviceChoice, ...]:
    """Resolve a list of devices; `all` means all GPUs, or the processor if there is none."""
    return tuple(choose(name, "--devices") for name in names_in(text))


def names_in(text: str) -> tuple[str, ...]:
    """Return the name of each device in a list, as `choose` takes it."""
    if text in {"all", AUTO, "cuda"}:
        return tuple(f"cuda:{index}" for index in range(len(visible_gpus()))) or (choose_kind(text),)
    names = [f"cuda:{name}" if name.isdigit() else name for name in text.split(",")]
    return tuple(dict.fromkeys(names))


def require_alike(devices: Sequence[DeviceChoice]) -> None:
    """Raise UsageError for devices of several models, whose times do not belong in one summary."""
    models = sorted({device.name for device in devices})
    if len(models) > 1:
        raise UsageError(f"the devices are of several models: {', '.join(models)}", "name those of one: `--devices 0`")


def choose_kind(text: str) -> str:
    """Return the kind that a list names: `cuda`, `cpu`, or `auto` for `all`. Raises UsageError for single devices."""
    kinds = {"all": AUTO, AUTO: AUTO, "cuda": "cuda", "cpu": "cpu"}
    if text not in kinds:
        raise UsageError(f"`{text}` names devices of this host alone", f"several hosts take one of {', '.join(kinds)}")
    return kinds[text]


def cpu() -> DeviceChoice:
    """Return the processor as a device; its uuid stands for this machine and this model."""
    models = (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name"))
    model = next(models, platform.processor() or platform.machine())
    machine = "".join(_lines("/etc/machine-id")) or platform.node()
    uuid = "CPU-" + hashlib.sha256(f"{machine}{model}".encode()).hexdigest()[:16]
    # A GPU must not be within a CPU worker's reach.
    return DeviceChoice(kind="cpu", name=model, uuid=uuid, key="cpu", environment={"CUDA_VISIBLE_DEVICES": ""})


def visible_gpus() -> list[DeviceChoice]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES allows, in its order, as NVML finds them."""
    found = [
        DeviceChoice(
            kind="cuda", name=name, uuid=uuid, key=f"{name} sm_{capability}", environment={"CUDA_VISIBLE_DEVICES": uuid}
        )
        for name, uuid, capability in nvml.gpus()
    ]
    return left_visible(found, os.environ.get("CUDA_VISIBLE_DEVICES"))


def left_visible(gpus: Sequence[DeviceChoice], wanted: str | None) -> list[DeviceChoice]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names, by index or beginning of a UUID; all if it is unset.

    Like CUDA, it ends at the first name without a GPU. Raises MachineError if that is the first name of all, unless it
    is empty or -1, the usual ways to hide all GPUs.
    """
    if wanted is None:
        return list(gpus)
    chosen: list[DeviceChoice] = []
    for name in (part.strip() for part in wanted.split(",")):
        index = int(name) if name.isdigit() else len(gpus)
        fitting = [gpus[index]] if index < len(gpus) else [g for g in gpus if name and g.uuid.startswith(name)]
        if len(fitting) != 1:
            if name not in {"", "-1"} and gpus and not chosen:
                what = f"CUDA_VISIBLE_DEVICES names `{name}`, which is not a GPU of this machine"
                raise MachineError(what, "name an index or a UUID from `nvidia-smi -L`; MIG devices are not supported")
            break
        chosen += fitting
    return chosen


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
