"""That a worker compiles no extension, whenever torch's module on them is imported."""

import subprocess
import sys

import pytest

REQUIRES = """
import sys
{before}
from kbench.worker.extensions import BuildError, require_builds
require_builds()
require_builds()
print("torch.utils.cpp_extension" in sys.modules)
from torch.utils import cpp_extension
require_builds()
try:
    cpp_extension.load_inline("mine", "int one() {{ return 1; }}", functions=["one"])
except BuildError as error:
    print(error)
print(sum(type(finder).__module__.startswith("kbench") for finder in sys.meta_path))
"""


@pytest.mark.parametrize("before", ["", "import torch.utils.cpp_extension"])
def test_no_extension_is_compiled_and_none_waits_for_an_import_that_it_does_not_need(before: str, tmp_path) -> None:
    environment = {"TORCH_EXTENSIONS_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    told = subprocess.run(
        [sys.executable, "-c", REQUIRES.format(before=before)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    imported, refused, finders = told.stdout.splitlines()
    assert imported == str(bool(before))
    assert "`mine` was not built in the build step" in refused
    assert finders == "0"
