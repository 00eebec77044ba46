"""However a solution names its sources: once one of them is edited, the edited one is judged."""

import re
from pathlib import Path

import pytest
import tiny_corpus
from require import WITH_CUDA
from verdicts import entries, verdicts

from kbench.build import manifest
from kbench.core.levels import Level
from kbench.core.model import Passed

pytestmark = [pytest.mark.slow(seconds=20), pytest.mark.usefixtures("own_cache")]

PROBLEM = tiny_corpus.problem(given="torch.rand(n) + 1", constants="n = 64")
RIGHT, WRONG = "2 * x[i]", "3 * x[i]"
C_SOURCE = 'extern "C" void doubled(const float* x, float* y, long n) {{ for (long i = 0; i < n; ++i) y[i] = {}; }}\n'
CUDA_SOURCE = """__global__ void kernel(const float* x, float* y, long n) {{ for (long i = 0; i < n; ++i) y[i] = {}; }}
extern "C" void doubled(const float* x, float* y, long n) {{ kernel<<<1, 1>>>(x, y, n); }}
"""
HEADER = "#define DOUBLED(x) ({})\n"
HEAD = """import ctypes, json, os, subprocess, sys
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
    "included": 'load("a7", [str(here / "h" / "with.cpp")], extra_cflags=["-include", str(here / "inc" / "ops.h")], '
    "**plain)",
    "package": '__import__("pack").path',
    "program": "compiled(here / 'csrc' / 'k.cpp')",
}
MORE_WAYS = {
    "linked": 'load("a10", [str(here / "link.cpp")], **plain)',
    "folder": 'load("a8", [str(here / "h" / "own.cpp")], extra_include_paths=[str(here / "inc")], **plain)',
    "listed": 'load("a5", [str(here / name) for name in json.loads((here / "list.json").read_text())], **plain)',
    "beside": 'load("a1", [str(here / "csrc" / "k.cpp")], **plain)',
    "pattern": 'load("a4", [str(path) for path in here.glob("csrc/*.cpp")], **plain)',
    "joined": 'load("a6", [os.sep.join([str(here), "cs" + "rc", "k" + ".cpp"])], **plain)',
    "searched": 'load("a11", [next(q for q in (f"{p}/csrc/k.cpp" for p in sys.path) if os.path.exists(q))], **plain)',
}
PROGRAM = """
def compiled(source):
    target = "/tmp/of_" + Path(__file__).stem + source.suffix + ".so"
    if not os.path.exists(target):
        subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", target], check=True)
    return target
"""
IN_CUDA = {
    'load_inline("a3", [': 'load_inline("a3", [], [',
    "extra_cflags": "extra_cuda_cflags",
    '"g++", "-shared", "-fPIC"': '"nvcc", "-shared", "-Xcompiler", "-fPIC"',
}


def written_for(device: str, text: str) -> str:
    """Write what compiles C++ so that it compiles CUDA, where that is asked for."""
    for words, others in IN_CUDA.items() if device == "cuda" else ():
        text = text.replace(words, others)
    return re.sub(r"\.cpp\b", ".cu", text) if device == "cuda" else text


def write_sources(folder: Path, device: str, expression: str) -> None:
    source = (CUDA_SOURCE if device == "cuda" else C_SOURCE).format(expression)
    for name in ("own/csrc/k.cpp", "other/k.cpp", "own/suffix.cpp", "own/pack/k.cpp", "real/k.cpp"):
        place = folder / written_for(device, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(source)
    (folder / "own" / "inc").mkdir(exist_ok=True)
    (folder / "own" / "inc" / "ops.h").write_text(HEADER.format(expression))


def write_solutions(folder: Path, device: str, ways: dict[str, str]) -> None:
    write_sources(folder, device, RIGHT)
    own, suffix = folder / "own", written_for(device, ".cpp")
    (own / "h").mkdir()
    source = (CUDA_SOURCE if device == "cuda" else C_SOURCE).format("DOUBLED(x)")
    (own / "h" / f"with{suffix}").write_text(source)
    (own / "h" / f"own{suffix}").write_text('#include "ops.h"\n' + source)
    (own / "list.json").write_text(f'["csrc/k{suffix}"]')
    (own / f"link{suffix}").symlink_to(folder / "real" / f"k{suffix}")
    package = f'{HEAD}path = load("a9", [str(here / "k.cpp")], **plain)\n'
    (own / "pack" / "__init__.py").write_text(written_for(device, package))
    for name, way in ways.items():
        text = f"import torch\n{HEAD}{PROGRAM if 'compiled' in way else ''}library = ctypes.CDLL({way})\n{BODY}"
        (own / f"{name}.py").write_text(written_for(device, text))
    (folder / "problem.py").write_text(PROBLEM)


def judged(folder: Path, device: str, ways: dict[str, str]) -> dict[str, tuple[bool, str]]:
    found = entries(folder / "problem.py", *(folder / "own" / f"{name}.py" for name in ways))
    every = verdicts(*found, level=Level.TASK, results_dir=folder, device=device).values()
    return {one.solution: (isinstance(one.outcome, Passed), getattr(one.outcome, "reason", "")) for one in every}


@pytest.mark.parametrize(
    ("device", "ways"),
    [("cpu", WAYS), pytest.param("cuda", {**WAYS, **MORE_WAYS}, marks=WITH_CUDA)],
    ids=["five ways on the CPU", "twelve ways in CUDA"],
)
def test_an_edited_source_is_judged_however_it_is_named(tmp_path: Path, device: str, ways: dict[str, str]) -> None:
    write_solutions(tmp_path, device, ways)
    first = judged(tmp_path, device, ways)
    assert {name: passed for name, (passed, _) in first.items()} == dict.fromkeys(ways, True), first
    write_sources(tmp_path, device, WRONG)
    second = judged(tmp_path, device, ways)
    assert {name: passed for name, (passed, _) in second.items()} == dict.fromkeys(ways, False), second
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
