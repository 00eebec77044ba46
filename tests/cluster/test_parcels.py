"""Sources that travel: with what they read, by the hash of that, to any folder."""

from dataclasses import replace
from pathlib import Path

import pytest
from sweeping import entry, task

from kbench.build import manifest
from kbench.build.interpreter import PACKAGE
from kbench.cluster import parcels

SHIPPED = PACKAGE / "problems" / "group_norm.py"


@pytest.fixture
def solution(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "kernel.cu").write_text("// a kernel\n")
    (folder / "helper.py").write_text("x = 1\n")
    path = folder / "fast.py"
    path.write_text('import helper\nSOURCE = "parts/kernel.cu"\nclass ModelNew: ...\n')
    return path


def test_a_source_travels_with_what_it_reads(solution: Path, tmp_path: Path) -> None:
    parcel = parcels.pack(solution)
    assert sorted(parcel.files) == ["fast.py", "helper.py", "parts/kernel.cu"]
    there = parcels.unpack(parcel, tmp_path / "there")
    assert there.read_bytes() == solution.read_bytes()
    assert manifest.identity(there) == manifest.identity(solution)
    assert parcels.unpack(parcel, tmp_path / "there") == there


def test_what_is_in_it_makes_the_hash(solution: Path) -> None:
    before = parcels.pack(solution).sha256
    (solution.parent / "helper.py").write_text("x = 2\n")
    assert parcels.pack(solution).sha256 != before


def test_a_task_finds_its_sources_on_another_host(solution: Path, tmp_path: Path) -> None:
    here = replace(task(1), problem=entry(SHIPPED), solution=entry(solution))
    places = {path: parcels.unpack(parcels.pack(path), tmp_path / "there") for path in (SHIPPED, solution)}
    there = parcels.settle(here, places)
    assert there.problem.path == SHIPPED
    assert there.solution.path.is_relative_to(tmp_path / "there")
    assert there.solution.name == here.solution.name
