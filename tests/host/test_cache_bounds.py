"""The bounds of the build cache: age, size, and what killed builds left."""

import os
import time

import pytest

from kbench.build.cache import BUILDS, CacheEntry
from kbench.host import cache_bounds

DAY_S = 86_400.0


def entry(cache, name: str, age_s: float, size: int = 1000) -> CacheEntry:
    folder = cache / BUILDS / name
    folder.mkdir(parents=True)
    (folder / "library.so").write_bytes(b"x" * size)
    os.utime(folder, (time.time() - age_s,) * 2)
    return CacheEntry(folder=folder)


@pytest.mark.parametrize(
    ("ages", "bounds", "left"),
    [
        ({"a": 0, "b": 10}, {}, {"a", "b"}),
        ({"a": 0, "old": 40 * DAY_S}, {}, {"a"}),
        ({"a": 0, "b": 10, "c": 20}, {"most_bytes": 2500}, {"a", "b"}),
        ({"a": 0, ".staged": 10}, {}, {"a", ".staged"}),
        ({"a": 0, ".killed": 7 * 3600}, {}, {"a"}),
        ({"a": 0, ".staged": 10}, {"most_bytes": -1, "max_age_s": 0.0}, set()),
    ],
)
def test_what_stays(tmp_path, ages, bounds, left):
    for name, age_s in ages.items():
        entry(tmp_path, name, age_s)
    removed = cache_bounds.trim(tmp_path, **bounds)
    assert {path.name for path in (tmp_path / BUILDS).iterdir()} == left
    assert removed.entries == len(ages) - len(left)
    assert cache_bounds.use(tmp_path).entries == len(left)


def test_a_copy_is_a_use(tmp_path):
    used, unused = entry(tmp_path, "used", 40 * DAY_S), entry(tmp_path, "unused", 40 * DAY_S)
    used.copy_to(tmp_path / "worker")
    cache_bounds.trim(tmp_path)
    assert (used.folder.exists(), unused.folder.exists()) == (True, False)


def test_the_whole_cache_is_looked_at_now_and_then(tmp_path):
    entry(tmp_path, "old", 40 * DAY_S)
    cache_bounds.trim_now_and_then(tmp_path)
    assert not list((tmp_path / BUILDS).iterdir())
    entry(tmp_path, "older", 50 * DAY_S)
    cache_bounds.trim_now_and_then(tmp_path)
    assert list((tmp_path / BUILDS).iterdir()), "not again within the hour"


def test_a_folder_that_nests_without_end_is_removed(tmp_path):
    deep = entry(tmp_path, ".killed", 0).folder
    place = deep
    for _ in range(1200):
        place = place / "d"
        if len(str(place)) < 4000:
            place.mkdir()
    os.utime(deep, (1, 1))
    cache_bounds.trim(tmp_path)
    assert not deep.exists()
