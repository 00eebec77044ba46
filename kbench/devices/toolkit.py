"""The tools of the CUDA toolkit."""

import os
import shutil
from pathlib import Path


def find(name: str) -> Path | None:
    """Find a tool where torch looks for nvcc: in CUDA_HOME, on PATH, in the usual folder."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    usual = [str(Path(each, part)) for each in filter(None, (home, "/usr/local/cuda")) for part in ("bin", name)]
    folders = [*usual[:-2], os.environ.get("PATH", os.defpath), *usual[-2:]]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return None if found is None else Path(found).absolute()
