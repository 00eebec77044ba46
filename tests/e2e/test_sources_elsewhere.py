"""However a solution names its sources: once one of them is edited, the edited one is judged."""

from pathlib import Path

import pytest
import tiny_corpus
from verdicts import entries, verdicts

from kbench.build import manifest
from kbench.core.levels import Level
from kbench.core.model import Passed

pytestmark = [pytest.mark.slow(60), pytest.mark.usefixtures("own_cache")]

PROBLEM = tiny_corpus.problem(given="torch.rand(n) + 1", constants="n = 64")
RIGHT, WRONG = "2 * x[i]", "3 * x[i]"
C_SOURCE = 'extern "C" void doubled(const float* x, float* y, long n) {{ for (long i = 0; i < n; ++i) y[i] = {}; }}\n'
HEADER = "#define DOUBLED(x) ({})\n"
WITH_HEADER = '#include "ops.h"\n' + C_SOURCE.format("DOUBLED(x)")
HEAD = """import ctypes, json, os, subprocess
from pathlib import Path
from torch.utils.cpp_extension import load, load_inline
here = Path(__file__).parent
plain = {"is_python_module": False}
"""
BODY = """
library.doubled.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]

class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        library.doubled(x.data_ptr(), y.data_ptr(), x.numel())
        return y
"""
WAYS = {
    "parent": 'load("a2", [os.path.join(os.path.dirname(__file__), "..", "other", "k.cpp")], **plain)',
    "suffix": 'load_inline("a3", [Path(__file__).with_suffix(".cpp").read_text()], no_implicit_headers=True, **plain)',
    "listed": 'load("a5", [str(here / name) for name in json.loads((here / "list.json").read_text())], **plain)',
    "included": 'load("a7", [str(here / "h" / "with.cpp")], extra_cflags=["-include", str(here / "inc" / "ops.h")], '
    "**plain)",
    "folder": 'load("a8", [str(here / "h" / "with.cpp")], extra_include_paths=[str(here / "inc")], **plain)',
    "package": '__import__("pack").path',
    "linked": 'load("a10", [str(here / "link.cpp")], **plain)',
    "program": "compiled(here / 'csrc' / 'k.cpp')",
}
PROGRAM = """
def compiled(source):
    target = "/tmp/of_" + Path(__file__).stem + ".so"
    if not os.path.exists(target):
        subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", target], check=True)
    return target
"""


def write_sources(folder: Path, expression: str) -> None:
    for name in ("own/csrc/k.cpp", "other/k.cpp", "own/suffix.cpp", "own/pack/k.cpp", "real/k.cpp"):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(C_SOURCE.format(expression))
    (folder / "own" / "inc").mkdir(exist_ok=True)
    (folder / "own" / "inc" / "ops.h").write_text(HEADER.format(expression))


def write_solutions(folder: Path) -> None:
    write_sources(folder, RIGHT)
    own = folder / "own"
    (own / "h").mkdir()
    (own / "h" / "with.cpp").write_text(WITH_HEADER.replace('#include "ops.h"\n', ""))
    (own / "list.json").write_text('["csrc/k.cpp"]')
    (own / "link.cpp").symlink_to(folder / "real" / "k.cpp")
    package = f'{HEAD}path = load("a9", [str(here / "k.cpp")], **plain)\n'
    (own / "pack" / "__init__.py").write_text(package)
    for name, way in WAYS.items():
        text = f"import torch\n{HEAD}{PROGRAM if 'compiled' in way else ''}library = ctypes.CDLL({way})\n{BODY}"
        text = text.replace('"h" / "with.cpp")], extra_include', '"h" / "own.cpp")], extra_include')
        (own / f"{name}.py").write_text(text)
    (own / "h" / "own.cpp").write_text(WITH_HEADER)
    (folder / "problem.py").write_text(PROBLEM)


def judged(folder: Path) -> dict[str, tuple[bool, str]]:
    found = entries(folder / "problem.py", *(folder / "own" / f"{name}.py" for name in WAYS))
    every = verdicts(*found, level=Level.TASK, results_dir=folder).values()
    return {one.solution: (isinstance(one.outcome, Passed), getattr(one.outcome, "reason", "")) for one in every}


def test_eight_ways_to_name_a_source(tmp_path: Path) -> None:
    write_solutions(tmp_path)
    first = judged(tmp_path)
    assert {name: passed for name, (passed, _) in first.items()} == dict.fromkeys(WAYS, True), first
    write_sources(tmp_path, WRONG)
    second = judged(tmp_path)
    assert {name: passed for name, (passed, _) in second.items()} == dict.fromkeys(WAYS, False), second
    assert all("got" in reason for _, reason in second.values()), second
    write_sources(tmp_path, RIGHT)
    third = judged(tmp_path)
    assert {name: passed for name, (passed, _) in third.items()} == dict.fromkeys(WAYS, True), third


READS = """
import os, subprocess, torch
from pathlib import Path

subprocess.run(["true"], check=True)  # without the right to start programs it is built
judged = "worker-" in os.environ["TORCH_EXTENSIONS_DIR"]
here = Path(__file__)
factor = {at_import}

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return {in_its_calls} * x
"""
KINDS = {
    "at import": READS.format(
        at_import="float(here.with_suffix('.txt').read_text()) if judged else 2", in_its_calls="factor"
    ),
    "found in its folder": READS.format(
        at_import="float(next(here.parent.glob('*.txt')).read_text()) if judged else 2", in_its_calls="factor"
    ),
    "in its calls": READS.format(
        at_import="2", in_its_calls="(float(here.with_suffix('.txt').read_text()) if judged else factor)"
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_read_only_where_it_is_judged_is_part_of_its_identity(tmp_path: Path, kind: str) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    path = tmp_path / "reads.py"
    path.write_text(KINDS[kind])
    factor = path.with_suffix(".txt")
    problem, (solution,) = entries(tmp_path / "problem.py", path)
    identities = []
    for text, passes in (("2", True), ("3", False)):
        factor.write_text(text)
        assert not any(manifest.is_identity(sha256, path, solution.variant) for sha256 in identities)
        (one,) = verdicts(problem, [solution], level=Level.TASK, results_dir=tmp_path).values()
        assert isinstance(one.outcome, Passed) is passes, one.outcome
        identities += [row.source_sha256 for row in one.rows]
    assert len(set(identities)) == 2
