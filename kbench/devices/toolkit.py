"""The tools of the CUDA toolkit."""

import os
import shutil
from pathlib import Path


def find(name: str) -> Path | None:
    """Find a tool where torch looks for nvcc: in CUDA_HOME, on PATH, in the usual folder."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or ""
    asked, usual = ([str(Path(each, part)) for part in ("bin", name) if each] for each in (home, "/usr/local/cuda"))
    folders = [*asked, os.environ.get("PATH", os.defpath), *usual]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return None if found is None else Path(found).absolute()
