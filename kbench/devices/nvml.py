"""NVML, NVIDIA's management library: opened here only. It answers without privileges and without torch."""

from typing import Any, Self

PACKAGES = {"pynvml": "nvidia-ml-py"}
"""The package that installs each module."""


def opened() -> Any:
    """Return pynvml with the library open. Raises its NVMLError without a driver."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml


def ask(question: str, *arguments: Any) -> Any:
    """Call a function of NVML; None without a driver, an answer or such a function."""
    import pynvml

    try:
        return getattr(opened(), question)(*arguments)
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


class NvmlDevice:
    """One GPU."""

    def __init__(self, uuid: str):
        self.nvml = opened()
        self._handle = self.nvml.nvmlDeviceGetHandleByUUID(uuid)

    @classmethod
    def find(cls, uuid: str) -> Self | None:
        """Return the GPU; None if NVML does not answer for it."""
        import pynvml

        try:
            return cls(uuid)
        except pynvml.NVMLError:
            return None

    def ask(self, question: str, *arguments: Any) -> Any:
        """Call a function of NVML on this GPU; None if this device or driver has no answer."""
        try:
            return getattr(self.nvml, question)(self._handle, *arguments)
        except (self.nvml.NVMLError, AttributeError):
            return None
