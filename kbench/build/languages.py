"""Packages of languages that compile while a solution runs, by their names on the package index."""

import importlib.metadata

PACKAGES = ("triton", "nvidia-cutlass-dsl", "tilelang", "helion")


def installed() -> dict[str, str | None]:
    """Return the version of each package; None where it is not installed."""
    return {name: _version(name) for name in PACKAGES}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
