"""However a solution names its sources: once one of them is edited, the edited one is judged."""

from pathlib import Path

import pytest
import tiny_corpus
from verdicts import entries, verdicts

from kbench.build import manifest
from kbench.core.levels import Level
from kbench.core.model import Passed

pytestmark = [pytest.mark.slow(seconds=20), pytest.mark.usefixtures("own_cache")]

PROBLEM = tiny_corpus.problem(given="torch.rand(n) + 1", constants="n = 64")
RIGHT, WRONG = "2 * x[i]", "3 * x[i]"
SOURCE = 'extern "C" void doubled(const float* x, float* y, long n) {{ for (long i = 0; i < n; ++i) y[i] = {}; }}\n'
HEAD = """import ctypes, os, subprocess
from pathlib import Path
from torch.utils.cpp_extension import load, load_inline
here = Path(__file__).parent
plain = {"is_python_module": False}

def compiled(source, *command):
    target = "/tmp/of_" + Path(__file__).stem + ".so"
    if not os.path.exists(target):
        subprocess.run([*(command or ("g++", "-shared", "-fPIC", str(source), "-o")), target], check=True)
    return target
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
    "included": 'load("a7", [str(here / "with.cpp")], extra_cflags=["-include", str(here / "ops.h")], **plain)',
    "package": '__import__("pack").path',
    "program": "compiled(here / 'csrc' / 'k.cpp')",
    "script": "compiled('', 'sh', here / 'scripts' / 'build.sh')",
    "below": "compiled('', 'g++', '-shared', '-fPIC', f'-I{here}/scripts', here / 'deep.cpp', '-o')",
}


def write_sources(folder: Path, expression: str) -> None:
    for name in ("own/csrc/k.cpp", "other/k.cpp", "own/suffix.cpp", "own/pack/k.cpp", "own/scripts/csrc/k.cpp"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SOURCE.format(expression))
    (folder / "own" / "ops.h").write_text(f"#define DOUBLED(x) ({expression})\n")


def write_solutions(folder: Path) -> None:
    write_sources(folder, RIGHT)
    own = folder / "own"
    (own / "with.cpp").write_text(SOURCE.format("DOUBLED(x)"))
    (own / "deep.cpp").write_text('#include "csrc/k.cpp"\n')
    (own / "scripts" / "build.sh").write_text('g++ -shared -fPIC "$(dirname "$0")/csrc/k.cpp" -o "$1"\n')
    (own / "pack" / "__init__.py").write_text(f'{HEAD}path = load("a9", [str(here / "k.cpp")], **plain)\n')
    for name, way in WAYS.items():
        (own / f"{name}.py").write_text(f"import torch\n{HEAD}library = ctypes.CDLL({way})\n{BODY}")
    (folder / "problem.py").write_text(PROBLEM)


def judged(folder: Path) -> dict[str, tuple[bool, str]]:
    found = entries(folder / "problem.py", *(folder / "own" / f"{name}.py" for name in WAYS))
    every = verdicts(*found, level=Level.TASK, results_dir=folder).values()
    return {one.solution: (isinstance(one.outcome, Passed), getattr(one.outcome, "reason", "")) for one in every}


def test_an_edited_source_is_judged_however_it_is_named(tmp_path: Path) -> None:
    write_solutions(tmp_path)
    first = judged(tmp_path)
    assert {name: passed for name, (passed, _) in first.items()} == dict.fromkeys(WAYS, True), first
    write_sources(tmp_path, WRONG)
    second = judged(tmp_path)
    assert {name: passed for name, (passed, _) in second.items()} == dict.fromkeys(WAYS, False), second
    assert all("got" in reason for _, reason in second.values()), second


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
    "at_import": READS.format(
        at_import="float(here.with_suffix('.txt').read_text()) if judged else 2", in_its_calls="factor"
    ),
    "in_its_calls": READS.format(
        at_import="2", in_its_calls="(float(here.with_suffix('.txt').read_text()) if judged else factor)"
    ),
}


def test_a_file_that_is_read_only_where_it_is_judged_is_part_of_its_identity(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    paths = [tmp_path / name / f"{name}.py" for name in KINDS]
    for path, text in zip(paths, KINDS.values(), strict=True):
        path.parent.mkdir()
        path.write_text(text)
    problem, solutions = entries(tmp_path / "problem.py", *paths)
    identities: list[set[str]] = []
    for text, passes in (("2", True), ("3", False)):
        for path, solution in zip(paths, solutions, strict=True):
            path.with_suffix(".txt").write_text(text)
            assert not any(manifest.is_identity(one, path, solution.variant) for one in set().union(*identities))
        found = verdicts(problem, solutions, level=Level.TASK, results_dir=tmp_path)
        assert {name: isinstance(one.outcome, Passed) for name, one in found.items()} == dict.fromkeys(KINDS, passes)
        identities.append({row.source_sha256 for one in found.values() for row in one.rows})
    assert len(set().union(*identities)) == 2 * len(KINDS)
