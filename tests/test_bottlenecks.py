"""The fixtures of `tests/bottlenecks.py`, as far as they can be checked without a GPU: they compile, one spills."""

import re
import subprocess
from pathlib import Path

import bottlenecks
import pytest

from kbench.build import hints, manifest
from kbench.catalog import registry
from kbench.core.bottleneck import Bottleneck
from kbench.kernels import native
from kbench.storage.settings import Settings

SOURCES = sorted(path.stem for path in bottlenecks.FOLDER.glob("*.cu"))


def test_ten_bottlenecks_have_a_solution_and_a_case(own_cache):
    assert len(bottlenecks.SOLUTIONS) == 10
    for name, (expected, problem, case) in bottlenecks.SOLUTIONS.items():
        entry = registry.find_problem(bottlenecks.FOLDER / f"{problem}.py", Settings())
        assert case in entry.parsed.cases
        solution = registry.find_solution(entry, bottlenecks.FOLDER / f"{name}.py", Settings())
        assert solution.devices == ("cuda",)
        own = expected is not Bottleneck.LIBRARY_ONLY
        source = solution.path.with_suffix(".cu")
        assert source.is_file() == own
        manifest.record(solution.path, "", [str(source)] if own else [], [])
        assert hints.declares_kernels(solution.path, None) == own, "as it was seen to read its source"


def test_every_source_is_a_solution_s():
    own = [name for name, (expected, *_) in bottlenecks.SOLUTIONS.items() if expected is not Bottleneck.LIBRARY_ONLY]
    assert sorted(own) == SOURCES


def test_every_rule_has_a_solution():
    seen = {expected for expected, *_ in bottlenecks.SOLUTIONS.values()}
    assert seen == set(Bottleneck) - {Bottleneck.NOTHING_SEEN, Bottleneck.UNEXPLAINED}


@pytest.mark.slow
@pytest.mark.skipif(not native.has_cuda_compiler(), reason="nvcc is not on the PATH")
@pytest.mark.parametrize("name", SOURCES)
def test_compiles_and_spills_only_where_it_should(name: str, tmp_path: Path) -> None:
    command = ["nvcc", "-O3", "-std=c++17", "-gencode=arch=compute_90,code=sm_90", "-Xptxas", "-v", "-cubin"]
    files = [str(bottlenecks.FOLDER / f"{name}.cu"), "-o", str(tmp_path / "code.cubin")]
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    (stack,) = re.findall(r"(\d+) bytes stack frame", done.stderr)
    assert (int(stack) > 32) == (name == "spills")


def test_enough_are_right():
    every = [
        bottlenecks.Named(solution=name, expected=expected, named=expected.value, sentence="")
        for name, (expected, *_) in bottlenecks.SOLUTIONS.items()
    ]
    without = [each for each in every if each.solution not in bottlenecks.NEEDS_COUNTERS]
    assert bottlenecks.enough(every, counters=True)
    assert bottlenecks.enough(every[1:], counters=True)
    assert not bottlenecks.enough(every[2:], counters=True)
    assert bottlenecks.enough(without, counters=False)
    assert not bottlenecks.enough(without[1:], counters=False)
    assert bottlenecks.table(every).endswith("10 of 10 are right")


def test_without_a_gpu_it_says_so(capsys):
    if bottlenecks.main([]) == 3:
        assert "no CUDA device found" in capsys.readouterr().err
