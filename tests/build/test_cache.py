"""The build cache: keys, entries that appear as a whole, and what compilers say."""

import os
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbench.build import cache as build_cache
from kbench.build.cache import CacheEntry
from kbench.core.errors import MachineError


def test_the_key_covers_source_device_toolchain_and_builtin(tmp_path, monkeypatch) -> None:
    path = tmp_path / "solution.py"
    path.write_text("import torch\n")
    cache = tmp_path / "cache"

    def key(builtin: str | None = None, device: str = "cpu") -> Path:
        return build_cache.entry_for(path, builtin or "", device, cache).folder

    first = key()
    assert first == key()
    assert first.parent == cache / "builds"
    different = [key(device="H200 sm_90"), key(device="H100 sm_90"), key("eager"), key("compile")]
    monkeypatch.setattr(build_cache, "toolchain", lambda: "another nvcc")
    different.append(key())
    monkeypatch.undo()
    monkeypatch.setattr(build_cache, "FORMAT", build_cache.FORMAT + 1)
    different.append(key())
    monkeypatch.undo()
    path.write_text(path.read_text() + "# flags: -O3\n")
    different.append(key())
    assert len({first, *different}) == 1 + len(different)


def test_the_toolchain_names_what_compiles(monkeypatch, tmp_path) -> None:
    fake = tmp_path / "fake-cxx"
    fake.write_text("#!/bin/sh\necho fake compiler 1.2\n")
    fake.chmod(0o755)
    found = {}
    for compiler in (str(fake), "/nonexistent/compiler"):
        monkeypatch.setenv("CXX", compiler)
        found[compiler] = build_cache.toolchain.__wrapped__()
    assert "fake compiler 1.2" in found[str(fake)]
    assert "absent" in found["/nonexistent/compiler"]


# --- entries -------------------------------------------------------------------


@pytest.fixture
def entry(tmp_path) -> CacheEntry:
    return CacheEntry(folder=tmp_path / "builds" / "key")


def staged(entry: CacheEntry, text: str) -> Path:
    staging = entry.stage()
    (staging / "artefact").write_text(text)
    (staging / "only").mkdir(exist_ok=True)
    (staging / "only" / text).touch()
    return staging


def test_an_entry_appears_when_it_is_published(entry, tmp_path) -> None:
    assert (entry.is_built, entry.rehearsed()) == (False, set())
    staging = staged(entry, "one")
    assert not entry.folder.exists()
    assert staging.parent == entry.folder.parent
    entry.publish(staging, {"b", "a"}, "")
    assert (entry.is_built, entry.rehearsed()) == (True, {"a", "b"})
    assert not staging.exists()


def test_staging_begins_with_what_there_is_and_changes_nothing(entry, tmp_path) -> None:
    entry.publish(staged(entry, "one"), {"a"}, "")
    staging = staged(entry, "two")
    assert (staging / "only" / "one").exists()
    assert (entry.folder / "artefact").read_text() == "one"
    entry.publish(staging, {"a", "b"}, "")
    assert (entry.folder / "artefact").read_text() == "two"
    assert os.listdir(tmp_path / "builds") == ["key"]  # noqa: PTH208 - hidden leftovers count


def test_a_worker_gets_a_copy_of_its_own(entry, tmp_path) -> None:
    entry.copy_to(tmp_path / "nothing yet")
    entry.publish(staged(entry, "one"), (), "")
    entry.copy_to(tmp_path / "copy")
    (tmp_path / "copy" / "artefact").write_text("forged")
    assert (entry.folder / "artefact").read_text() == "one"


def test_a_key_that_more_files_are_part_of_has_the_same_artefacts_unless_it_has_its_own(tmp_path) -> None:
    entry, more, own = (CacheEntry(folder=tmp_path / "builds" / name) for name in ("key", "more", "own"))
    entry.share_with(more)
    assert not more.is_built
    entry.publish(staged(entry, "one"), {"a"}, "programs")
    own.publish(staged(own, "two"), {"a"}, "")
    for other in (more, own):
        entry.share_with(other)
    assert (more.rehearsed(), more.compiler, (more.folder / "artefact").read_text()) == ({"a"}, "programs", "one")
    assert (own.folder / "artefact").read_text() == "two"
    more.publish(staged(more, "three"), {"a"}, "")
    assert (entry.folder / "artefact").read_text() == "one"


def test_a_build_that_its_builder_did_not_end_holds_no_lock(entry) -> None:
    staging = entry.stage()
    (staging / "extensions" / "x").mkdir(parents=True)
    for name in ("lock", "x.cpp"):
        (staging / "extensions" / "x" / name).touch()
    entry.publish(staging, (), "")
    assert [path.name for path in (entry.folder / "extensions" / "x").iterdir()] == ["x.cpp"]


def test_builders_that_race_leave_one_whole_entry(entry, tmp_path) -> None:
    stagings = [staged(entry, f"builder{n}") for n in range(24)]
    barrier = threading.Barrier(len(stagings))

    def publish(staging: Path) -> None:
        barrier.wait()
        entry.publish(staging, {staging.name}, "")

    with ThreadPoolExecutor(len(stagings)) as threads:
        list(threads.map(publish, stagings))
    winner = (entry.folder / "artefact").read_text()
    assert [file.name for file in (entry.folder / "only").iterdir()] == [winner]
    assert len(entry.rehearsed()) == 1
    assert os.listdir(tmp_path / "builds") == ["key"]  # noqa: PTH208 - hidden leftovers count


def test_a_copy_taken_while_others_publish_is_one_whole_build(entry, tmp_path) -> None:
    entry.publish(staged(entry, "build0"), (), "")

    def publish() -> None:
        for number in range(1, 150):
            staging = Path(tempfile.mkdtemp(dir=entry.folder.parent))
            for name in ("artefact", *(f"part{n}" for n in range(20))):
                (staging / name).write_text(f"build{number}")
            entry.publish(staging, (), "")

    with ThreadPoolExecutor(1) as thread:
        publishing, copies = thread.submit(publish), 0
        while not publishing.done() or not copies:
            copy = tmp_path / f"copy{copies}"
            entry.copy_to(copy)
            texts = {file.read_text() for file in copy.iterdir() if file.is_file() and file.name != "built.json"}
            assert len(texts) == 1, "a copy is of one build"
            assert (copy / "built.json").exists()
            copies += 1
        publishing.result()


def test_a_copy_that_cannot_be_made_is_an_error(entry, tmp_path) -> None:
    entry.publish(staged(entry, "one"), (), "")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        entry.copy_to(tmp_path / "file" / "copy")


def test_a_cache_that_cannot_be_written_is_the_machines_fault(tmp_path):
    (tmp_path / "file").write_text("")
    entry = CacheEntry(folder=tmp_path / "file" / "builds" / "key")
    with pytest.raises(MachineError, match="cannot be written: Not a directory") as caught:
        entry.stage()
    assert "KBENCH_CACHE" in (caught.value.hint or "")
