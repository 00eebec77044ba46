"""Manifests: what a file was seen to depend on, when that is as it was, and the identity that follows from it."""

import json
import os
from pathlib import Path

import pytest

from kbench.build import manifest

ENTRY = "solution.py"
FILES = {
    ENTRY: "import helper\n",
    "helper.py": "x = 1\n",
    "csrc/k.cpp": "int one() { return 1; }\n",
    "csrc/tile.h": "#define ONE 1\n",
    "shapes.json": "[4, 5]\n",
}


def lay_out(folder: Path, files: dict[str, str] | None = None) -> Path:
    """Write the files; return the one that depends on the others."""
    for name, text in (files or FILES).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / ENTRY


def observed(folder: Path, *names: str) -> list[str]:
    return [str(folder / name) for name in names or FILES]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))


def edit_helper(folder: Path) -> None:
    (folder / "helper.py").write_text("x = 2\n")


CHANGES = {
    "a source is edited": (edit_helper, False),
    "a source is removed": (lambda folder: (folder / "helper.py").unlink(), False),
    "a source is added": (lambda folder: (folder / "csrc" / "new.cpp").write_text(""), False),
    "a file that was looked for is made": (lambda folder: (folder / "tuned.json").write_text("{}"), False),
    "a link is put in place of a file": (
        lambda folder: ((folder / "shapes.json").unlink(), (folder / "shapes.json").symlink_to("csrc/tile.h")),
        False,
    ),
    "a source gets another date": (lambda folder: os.utime(folder / "helper.py", (1, 1)), True),
    "an unrelated file is added": (lambda folder: (folder / "unrelated.py").write_text(""), True),
    "bytecode is added": (
        lambda folder: ((folder / "csrc" / "__pycache__").mkdir(), (folder / "csrc" / "x.pyc").touch()),
        True,
    ),
}


@pytest.mark.parametrize(("change", "stays"), CHANGES.values(), ids=CHANGES)
def test_what_makes_another_solution(tmp_path, change, stays):
    folder = tmp_path / "one"
    path = lay_out(folder)
    files = observed(folder, *FILES, "tuned.json")
    known = manifest.record(path, "", files, [str(folder / "csrc")])
    before = manifest.identity(path)
    assert before == known.digest(path)
    change(folder)
    assert manifest.is_identity(before, path) is stays
    again = manifest.record(path, "", files, [str(folder / "csrc")])
    assert (again.digest(path) == before) is stays


def test_a_file_alone_is_known_by_its_content_wherever_it_lies(tmp_path):
    path, moved = lay_out(tmp_path / "a", {ENTRY: "x"}), lay_out(tmp_path / "b" / "c", {ENTRY: "x"})
    assert manifest.record(path, "", [str(path)], []) == manifest.NOTHING
    assert manifest.identity(path) == manifest.identity(moved)
    assert manifest.identity(path) != manifest.identity(path, "compile")
    assert manifest.is_identity(manifest.identity(path), moved)


def test_a_whole_folder_may_move_and_one_wrapper_beside_other_sources_is_another_solution(tmp_path):
    for name in ("a", "b", "c"):
        lay_out(tmp_path / name)
    edit_helper(tmp_path / "c")
    found = [
        manifest.record(tmp_path / name / ENTRY, "", observed(tmp_path / name), []).digest(tmp_path / name / ENTRY)
        for name in ("a", "b", "c")
    ]
    assert found[0] == found[1] != found[2]
    assert [manifest.identity(tmp_path / name / ENTRY) for name in ("a", "b", "c")] == found


def test_what_is_known_grows_with_what_is_seen(tmp_path):
    path = lay_out(tmp_path / "one")
    manifest.record(path, "", observed(path.parent, "helper.py"), [])
    manifest.record(path, "", observed(path.parent, "csrc/k.cpp"), [])
    assert set(manifest.current(path).files) == {"helper.py", "csrc/k.cpp"}
    assert manifest.latest(path) == [path, path.parent / "csrc/k.cpp", path.parent / "helper.py"]
    edit_helper(path.parent)
    assert manifest.current(path) == manifest.NOTHING, "nothing is known of it as it is now"


def test_what_is_gone_elsewhere_and_devices_do_not_count(tmp_path):
    path = lay_out(tmp_path / "one")
    files = [str(tmp_path / "elsewhere" / "gone.so"), "/dev/null", "/proc/self/maps", str(path)]
    assert manifest.record(path, "", files, [str(tmp_path / "gone")]) == manifest.NOTHING


def test_a_pipe_is_no_file_and_waits_for_nobody(tmp_path):
    path = lay_out(tmp_path / "one")
    os.mkfifo(path.parent / "pipe")
    assert manifest.record(path, "", [str(path.parent / "pipe")], []).files.keys() == {"pipe"}


def test_a_long_file_is_hashed_to_its_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "MAX_HASHED_BYTES", 8)
    path = lay_out(tmp_path / "one", {ENTRY: "x", "weights.bin": "0123456789"})
    weights = path.parent / "weights.bin"
    before = manifest.content_hash(str(weights))
    weights.write_text("01234567xx")
    os.utime(weights, (1, 1))
    assert manifest.content_hash(str(weights)) != before, "its date tells"


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"files": 3, "folders": {}}]', '[{"folders": {}}]', "null"])
def test_a_damaged_record_is_none(tmp_path, text):
    path = lay_out(tmp_path / "one")
    manifest.record(path, "", observed(path.parent), [])
    (kept,) = (tmp_path / "cache" / manifest.FOLDER).iterdir()
    kept.write_text(text)
    assert manifest.current(path) == manifest.NOTHING
    manifest.record(path, "", observed(path.parent), [])
    assert len(json.loads(kept.read_text())) == 1


def test_a_lost_file_is_said(tmp_path):
    assert manifest.identity(tmp_path / "gone.py") == ""
    with pytest.raises(OSError, match="cannot be read"):
        manifest.file_hash(tmp_path / "gone.py")
    assert not manifest.is_identity("0" * 64, tmp_path / "gone.py")
