"""The error for a Python package that is not installed; importable without any."""

import sys

from kbench.core.errors import MachineError
from kbench.devices.nvml import PACKAGES


def missing_package(error: Exception) -> MachineError | None:
    """Make the error that names the package and what to type; None if something else is wrong."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    module = (error.name or "kbench").partition(".")[0]
    if module == "kbench":
        return None
    package = PACKAGES.get(module, module)
    hint = f"`{sys.executable} -m pip install {package}`"
    return MachineError(f"the Python package `{package}` is not installed", hint)
