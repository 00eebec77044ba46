"""The tools of the CUDA toolkit."""

import os
import shutil
from pathlib import Path


def find(name: str) -> Path | None:
    """Find a tool on PATH, in CUDA_HOME, or in the usual folder."""
    homes = filter(None, (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"))
    folders = [os.environ.get("PATH", os.defpath), *(str(Path(home, part)) for home in homes for part in ("bin", name))]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return None if found is None else Path(found).absolute()
