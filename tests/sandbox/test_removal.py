"""What strangers leave: folders that are hard to remove, artefacts that are no artefacts, caches of other code."""

import importlib.util
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kbench.build import cache, interpreter
from kbench.build.cache import CacheEntry, UnfitArtefactsError
from kbench.sandbox import removal

NEST = "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nopen('file', 'w').close()\n"


def test_what_is_left_is_removed_however_deep_odd_or_closed(tmp_path):
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    (folder / "wide" / "inner").mkdir(parents=True)
    for number in range(50):
        (folder / "wide" / f"file{number}").touch()
    outside.mkdir()
    (outside / "precious").touch()
    (folder / "link").symlink_to(outside)
    (folder / "wide" / "inner" / "link").symlink_to(outside)
    os.mkfifo(folder / "pipe")
    (folder / "closed").mkdir(mode=0)
    subprocess.run([sys.executable, "-c", NEST], cwd=folder, check=True)
    removal.remove(folder)
    assert not folder.exists()
    assert (outside / "precious").exists()
    removal.remove(folder)


def staged(tmp_path: Path) -> tuple[CacheEntry, Path]:
    entry = CacheEntry(folder=tmp_path / "builds" / "key")
    staging = entry.stage()
    (staging / "extensions").mkdir()
    (staging / "extensions" / "fast.so").write_text("code")
    return entry, staging


def test_a_builder_cannot_have_the_record_written_elsewhere(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    entry, staging = staged(tmp_path)
    (staging / cache.RECORD).symlink_to(victim)
    entry.publish(staging, {"a"}, "")
    assert victim.read_text() == "precious"
    assert entry.rehearsed() == {"a"}


def test_only_plain_files_of_its_own_stay_in_an_entry(tmp_path):
    entry, staging = staged(tmp_path)
    (staging / cache.RECORD).mkdir()
    (staging / "out").symlink_to("/etc")
    (staging / "in").symlink_to("extensions/fast.so")
    os.mkfifo(staging / "extensions" / "pipe")
    entry.publish(staging, (), "")
    entry.copy_to(tmp_path / "copy")
    kept = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")}
    assert kept == {"extensions", "extensions/fast.so", "in", "home", "tmp", cache.RECORD}


def test_a_bottomless_folder_is_no_artefact(tmp_path):
    entry, staging = staged(tmp_path)
    subprocess.run([sys.executable, "-c", NEST], cwd=staging, check=True)
    with pytest.raises(UnfitArtefactsError, match="levels"):
        entry.publish(staging, (), "")
    assert not entry.is_built
    removal.remove(staging)
    assert not staging.exists()


@pytest.mark.parametrize(
    ("leave", "error", "words"),
    [
        (lambda folder: [(folder / f"file{n}").touch() for n in range(20)], UnfitArtefactsError, "more than 15 files"),
        (
            lambda folder: ((folder / "sparse").touch(), os.truncate(folder / "sparse", 3 << 40)),
            UnfitArtefactsError,
            "more than 15 files, 2 GiB",
        ),
        (
            lambda folder: (folder / "/".join(["d" * 200] * 5)).mkdir(parents=True),
            UnfitArtefactsError,
            "a path of more than 1000 bytes",
        ),
        (lambda folder: (folder / cache.RECORD / "inner").mkdir(parents=True), OSError, "not empty"),
    ],
    ids=["many", "sparse", "long path", "full record"],
)
def test_what_is_too_much_is_not_kept(tmp_path, monkeypatch, leave, error, words):
    monkeypatch.setattr(cache, "MOST_FILES", 15)
    entry, staging = staged(tmp_path)
    leave(staging)
    with pytest.raises(error, match=words):
        entry.publish(staging, (), "")
    assert not entry.is_built


def test_what_is_kept_can_be_read_by_its_owner(tmp_path):
    entry, staging = staged(tmp_path)
    (staging / "closed").mkdir()
    (staging / "closed" / "file").touch(mode=0)
    (staging / "closed").chmod(0)
    (staging / "program").touch(mode=0o755)
    entry.publish(staging, (), "")
    modes = [(entry.folder / name).stat().st_mode & 0o777 for name in ("closed", "closed/file", "program")]
    assert modes == [0o700, 0o600, 0o755]


TOO_LONG = "[Errno 36] File name too long: '/cache/a'"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (shutil.Error([("/cache/a", "/copy/a", TOO_LONG), ("/cache/b", "/copy/b", "other")]), "File name too long"),
        (OSError(28, "No space left on device", "/copy/a"), "No space left on device"),
        (OSError("odd"), "OSError"),
    ],
)
def test_why_artefacts_are_not_copied_is_said_without_their_paths(error, words):
    assert cache.uncopied(error).startswith(f"its artefacts cannot be copied: {words}; ")


def test_an_entry_that_cannot_be_copied_leaves_no_staging_folder(tmp_path, monkeypatch):
    entry, staging = staged(tmp_path)
    entry.publish(staging, (), "")

    def refuse(_from: Path, to: Path, **_options: object) -> None:
        (to / "half").touch()
        raise shutil.Error([("/cache/a", str(to), TOO_LONG)])

    monkeypatch.setattr(shutil, "copytree", refuse)
    with pytest.raises(OSError, match="too long"):
        entry.stage()
    assert [path.name for path in entry.folder.parent.iterdir()] == ["key"]


@pytest.mark.parametrize("name", ["mine", "beside"])
def test_a_solution_is_its_source_not_what_a_cache_says(tmp_path, name):
    """A `.pyc` that claims to need no check would run instead of the source that the row's hash is of."""
    (tmp_path / "beside.py").write_text("WHO = 'forged'\n")
    (tmp_path / "mine.py").write_text("import beside\nWHO, ModelNew = 'forged', beside\n")
    source = tmp_path / f"{name}.py"
    cached = importlib.util.cache_from_source(str(source))
    py_compile.compile(str(source), cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    for file in tmp_path.glob("*.py"):
        file.write_text(file.read_text().replace("forged", "source"))
    code = (
        "import sys; from pathlib import Path; from kbench.worker.solution import import_solution\n"
        f"module = import_solution(Path({str(tmp_path / 'mine.py')!r}))\n"
        "print(module.WHO, module.ModelNew.WHO)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["source", "source"]


def test_children_do_not_import_from_the_folder_that_kbench_is_run_in(tmp_path):
    """A checkout of a stranger's may hold a `secrets.py`, which the judge imports."""
    for name in ("secrets.py", "pynvml.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from here')\n")
    code = (
        "from pathlib import Path; from kbench.process.child import Child, Launch\n"
        "from kbench.host.nursery_process import nursery, present\n"
        "from kbench.sandbox.rungs import Rung; import os\n"
        "where = {'environment': dict(os.environ), 'folder': Path.cwd(), 'rung': Rung(0)}\n"
        "launch = Launch(module='kbench.judge.start', **where)\n"
        "from kbench.core.events import RunOptions; from kbench.process.options import encode_options\n"
        "config = {'device': 'cpu', 'rung': 0, 'scratch': '.', 'options': encode_options(RunOptions()),\n"
        " 'home': '.', 'reference_artefacts': '', 'files': []}\n"
        "with nursery():\n"
        "    child = Child(launch, present())\n"
        "    child.channel.send({'environment': launch.environment, 'folder': str(launch.folder), 'config': config})\n"
        "    try:\n        child.request({'op': 'nothing'}, timeout_s=60)\n"
        "    except Exception as error:\n        print(error.reason)\n"
        "    child.kill()\n"
    )
    root = str(Path(interpreter.PACKAGE).parent)
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "do_nothing" in done.stdout
