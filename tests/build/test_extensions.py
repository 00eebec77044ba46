"""That a worker compiles no extension, whenever torch's module on them is imported."""

import pytest

REQUIRES = """
import os
import sys
os.environ["TORCH_EXTENSIONS_DIR"] = {folder!r}
{before}
from pathlib import Path
from kbench.build.extensions import BuildError, ExtensionBuilds
from kbench.build.observation import Observation
observation = Observation()
observation.begin(Path({folder!r}) / "s.py")
builds = ExtensionBuilds(observation, None)
builds.install()
builds.install()
print("torch.utils.cpp_extension" in sys.modules)
from torch.utils import cpp_extension
builds.install()
try:
    cpp_extension.load_inline("mine", "int one() {{ return 1; }}", functions=["one"])
except BuildError as error:
    print(error)
print(sum(type(finder).__module__.startswith("kbench") for finder in sys.meta_path))
"""


@pytest.mark.parametrize("before", ["", "import torch.utils.cpp_extension"])
def test_no_extension_is_compiled_and_none_waits_for_an_import_that_it_does_not_need(
    before: str, tmp_path, after_torch_process
) -> None:
    told = after_torch_process.run(REQUIRES.format(before=before, folder=str(tmp_path)))
    imported, refused, finders = told.splitlines()
    assert imported == str(bool(before))
    assert "`mine` is not the one that was built" in refused
    assert finders == "0"


DIGESTS = """
from pathlib import Path
from kbench.build.extensions import ExtensionBuilds
from kbench.build.observation import Observation
here = Path({folder!r})
for name in ("k.cpp", "flags.rsp", "x.o", "libx.a", "other.py"):
    (here / name).write_text("1")
observation = Observation()
observation.begin(here / "s.py")
builds = ExtensionBuilds(observation, None)
flags = {{"extra_cflags": [f"-O2 @{{here}}/flags.rsp"], "extra_ldflags": [f"{{here}}/x.o", f"-L{{here}} -lx"]}}

def digest():
    return builds._digest({{"name": "mine", "sources": [str(here / "k.cpp")], "with_cuda": None, **flags}}, here)

before = digest()
for name in ("k.cpp", "flags.rsp", "x.o", "libx.a", "other.py"):
    (here / name).write_text("2")
    print(name, digest() != before)
    (here / name).write_text("1")
assert digest() == before
"""


def test_what_flags_name_is_part_of_an_extension_and_a_neighbour_is_not(tmp_path, after_torch_process) -> None:
    told = after_torch_process.run(DIGESTS.format(folder=str(tmp_path)))
    assert told.split() == ["k.cpp", "True", "flags.rsp", "True", "x.o", "True", "libx.a", "True", "other.py", "False"]
