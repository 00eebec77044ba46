"""NVML, NVIDIA's management library: opened here only. It answers without privileges and without torch."""

from typing import Any

PACKAGES = {"pynvml": "nvidia-ml-py"}
"""The package that installs each module."""


def opened() -> Any:
    """Return pynvml with the library open. Raises its NVMLError without a driver."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml


def ask(question: str, *arguments: Any, of: str = "") -> Any:
    """Call a function of NVML, whose last argument is the constant `of`; None without a driver or an answer."""
    import pynvml

    try:
        nvml = opened()
        return getattr(nvml, question)(*arguments, *([getattr(nvml, of)] if of else []))
    except (pynvml.NVMLError, AttributeError):
        return None


def driver_version() -> str:
    """Return the driver's version; empty without a driver."""
    return str(ask("nvmlSystemGetDriverVersion") or "")


def gpus() -> list[tuple[str, str, str]]:
    """Return (name, UUID, compute capability as `90`) of every GPU; nothing if NVML does not answer for all."""
    import pynvml

    try:
        nvml = opened()
        handles = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]
        return [
            (
                nvml.nvmlDeviceGetName(handle),
                nvml.nvmlDeviceGetUUID(handle),
                "".join(map(str, nvml.nvmlDeviceGetCudaComputeCapability(handle))),
            )
            for handle in handles
        ]
    except pynvml.NVMLError:
        return []


def handle(uuid: str) -> Any:
    """Return the handle of a GPU, with which `ask` is called; None if NVML does not answer for it."""
    return ask("nvmlDeviceGetHandleByUUID", uuid)
