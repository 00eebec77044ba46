"""What strangers leave: folders that are hard to remove, artefacts that are no artefacts, caches of other code."""

import importlib.util
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from kbench.isolation import leftovers
from kbench.measure import build, sources
from kbench.measure.build import CacheEntry, UnfitArtefactsError

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
    leftovers.remove(folder)
    assert not folder.exists()
    assert (outside / "precious").exists()
    leftovers.remove(folder)


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
    (staging / build.RECORD).symlink_to(victim)
    entry.publish(staging, {"a"})
    assert victim.read_text() == "precious"
    assert entry.rehearsed() == {"a"}


def test_only_plain_files_of_its_own_stay_in_an_entry(tmp_path):
    entry, staging = staged(tmp_path)
    (staging / build.RECORD).mkdir()
    (staging / "out").symlink_to("/etc")
    (staging / "in").symlink_to("extensions/fast.so")
    os.mkfifo(staging / "extensions" / "pipe")
    entry.publish(staging, ())
    entry.copy_to(tmp_path / "copy")
    kept = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")}
    assert kept == {"extensions", "extensions/fast.so", "in", build.RECORD}


def test_a_bottomless_folder_is_no_artefact(tmp_path):
    entry, staging = staged(tmp_path)
    subprocess.run([sys.executable, "-c", NEST], cwd=staging, check=True)
    with pytest.raises(UnfitArtefactsError, match="levels"):
        entry.publish(staging, ())
    assert not entry.is_built
    leftovers.remove(staging)
    assert not staging.exists()


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
        "import sys; from pathlib import Path; from kbench.isolation.solution import import_solution\n"
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
        "from pathlib import Path; from kbench.isolation.process import Child, Launch\n"
        "from kbench.isolation.sandbox import Rung; import os\n"
        'config = \'{"device": "cpu", "rung": 0, "scratch": "."}\'\n'
        "launch = Launch(module='kbench.isolation.judge', environment=os.environ, folder=Path.cwd(), rung=Rung(0),\n"
        "    arguments=(config,))\n"
        "child = Child(launch)\n"
        "try:\n    child.request({'op': 'nothing'}, timeout_s=60)\n"
        "except Exception as error:\n    print(error.reason)\n"
        "child.kill()\n"
    )
    root = str(Path(sources.PACKAGE).parent)
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "do_nothing" in done.stdout
