"""A /tmp, a home and a /dev/shm of one's own: what works in them, what is cached of it, and what stays out of reach."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from require import require_rung

import kbench.engine.run
from kbench.catalog import registry
from kbench.core.events import Judged, RunOptions, StageFinished
from kbench.core.levels import Level
from kbench.core.model import Failed, Passed, Status
from kbench.sandbox import hidden_paths, namespaces, rungs
from kbench.sandbox.rungs import Rung
from kbench.storage.settings import Settings

ROOT = Path(__file__).parents[2]
SWISH = ROOT / "tests" / "kernelbench" / "25_Swish.py"
TMP = Path("/tmp")

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's"),
    pytest.mark.usefixtures("own_cache"),
]
WITH_NAMESPACES = pytest.mark.parametrize("rung", [Rung.FULL], ids=["full"])


@pytest.fixture
def name() -> str:
    """Of a folder that nobody else has in /tmp."""
    return f"kbench-test-{uuid.uuid4().hex}"


def judge(path: Path, rung: Rung, monkeypatch, tmp_path) -> tuple[Judged, bool]:
    """Verify a solution in a rung; say too whether anything was built."""
    require_rung(rung)
    monkeypatch.setattr(kbench.engine.run, "sandbox_rung", lambda *_: int(rung))
    problem = registry.find_problem(SWISH, Settings())
    entry = registry.find_solution(problem, path, Settings())
    options = RunOptions(device="cpu", verify_only=True, level=Level.TASK, save=False, results_dir=tmp_path / "results")
    events = list(kbench.engine.run.run(problem, [entry], options))
    built = any(isinstance(event, StageFinished) and event.stage == "build" for event in events)
    return next(event for event in events if isinstance(event, Judged)), built


FIXED_FOLDER = """
import ctypes
import os
import subprocess
from pathlib import Path

import torch
from torch import nn
from torch.utils.cpp_extension import load

FOLDER, LIBRARY = "/tmp/{name}", "/tmp/{name}/plain.so"
os.makedirs(FOLDER, exist_ok=True)
Path(FOLDER, "two.cpp").write_text('extern "C" int two() {{ return 2; }}')
EXTENSION = load(name="two_{name}".replace("-", "_"), sources=[FOLDER + "/two.cpp"], build_directory=FOLDER,
                 is_python_module=False)
if not os.path.exists(LIBRARY):
    Path(FOLDER, "one.c").write_text("int one(void) {{ return 1; }}")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", LIBRARY, FOLDER + "/one.c"], check=True)
assert ctypes.CDLL(LIBRARY).one() == 1
REMEMBERED = Path.home() / ".cache" / "{name}"
REMEMBERED.mkdir(parents=True, exist_ok=True)
Path("/dev/shm/{name}").write_text("x")


class ModelNew(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)
"""


@WITH_NAMESPACES
def test_a_fixed_build_folder_works_is_cached_and_is_nobody_elses(rung, name, monkeypatch, tmp_path):
    solution = tmp_path / "fixed.py"
    solution.write_text(FIXED_FOLDER.format(name=name))
    first, built = judge(solution, rung, monkeypatch, tmp_path)
    assert isinstance(first.outcome, Passed), first.outcome
    assert built
    again, built = judge(solution, rung, monkeypatch, tmp_path)
    assert isinstance(again.outcome, Passed), again.outcome
    assert not built, "the worker, which may start no compiler, found what the build had left in its /tmp"
    homes = (Path.home() / ".cache" / name, TMP / name, Path("/dev/shm") / name)
    assert not any(place.exists() for place in homes)
    (entry,) = (tmp_path / "cache" / "builds").iterdir()
    kept = {str(path.relative_to(entry / "tmp")) for path in (entry / "tmp").rglob("*")}
    assert {name, f"{name}/plain.so"} <= kept
    assert all(path.startswith(name) for path in kept), "places of what showed through are no artefacts"


def test_without_a_mount_namespace_the_reason_says_so(name, monkeypatch, tmp_path):
    solution = tmp_path / "fixed.py"
    solution.write_text(FIXED_FOLDER.format(name=name))
    judged, _ = judge(solution, Rung.LANDLOCK, monkeypatch, tmp_path)
    assert isinstance(judged.outcome, Failed)
    assert judged.outcome.status is Status.IMPORT_FAILED
    assert "cannot give it a /tmp of its own" in judged.outcome.reason
    assert not (TMP / name).exists()


LOOKS_AROUND = """
import json, os, sys
from pathlib import Path
from kbench.sandbox import rungs

rung, scratch, folder, hidden, elsewhere = rungs.Rung(int(sys.argv[1])), *map(Path, sys.argv[2:])
rungs.restrict_self(rung, writable=[scratch], temporary=scratch / "tmp", hidden=[hidden], allow_exec=False)

def tried(attempt):
    try:
        return attempt() or "done"
    except OSError as error:
        return type(error).__name__

print(json.dumps({
    "write_solution": tried(lambda: (folder / "mine.py").write_text("x") and "done"),
    "write_beside": tried(lambda: (folder / "new").write_text("x") and "done"),
    "delete": tried((folder / "mine.py").unlink),
    "rename": tried(lambda: (folder / "mine.py").rename(Path("/tmp/moved")) and "done"),
    "read_solution": tried((folder / "mine.py").read_text),
    "read_hidden": tried((hidden / "secret").read_text),
    "read_elsewhere": tried((elsewhere / "secret").read_text),
    "by_the_old_folder": tried(Path("../other/secret").read_text),
    "write_tmp": tried(lambda: Path("/tmp/own").write_text("x") and "done"),
    "write_scratch": tried(lambda: (scratch / "own").write_text("x") and "done"),
    "here": os.getcwd(),
    "listing": sorted(os.listdir("/tmp")),
}))
"""


@pytest.fixture
def places(tmp_path) -> Iterator[dict[str, Path]]:
    """A solution's folder with results in it, a scratch folder, and one of somebody else's; all below /tmp."""
    if namespaces.place() not in tmp_path.parents:
        pytest.skip("the folder of this test lies elsewhere")
    for name in ("work/mine.py", "work/sub/data", "work/results/secret", "run/scratch/tmp/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("precious")
    folders = ("work", "work/results", "run/scratch")
    elsewhere = Path(tempfile.mkdtemp(prefix="elsewhere-", dir=namespaces.place()))
    (elsewhere / "secret").write_text("precious")
    yield {"other": elsewhere, **{folder.rpartition("/")[2]: tmp_path / folder for folder in folders}}
    shutil.rmtree(elsewhere)


def look_around(rung: Rung, places: dict[str, Path], around: namespaces.Surroundings) -> dict:
    arguments = [str(places[key]) for key in ("scratch", "work", "results", "other")]
    argv = rungs.command(rung, [sys.executable, "-c", LOOKS_AROUND, str(int(rung)), *arguments], around)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    folder = places["work"]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def surroundings(places: dict[str, Path]) -> namespaces.Surroundings:
    scratch, work = places["scratch"], places["work"]
    return hidden_paths.surroundings(
        scratch / "tmp", own=[scratch], files=[work / "mine.py"], hidden=[places["results"]]
    )


@WITH_NAMESPACES
def test_what_shows_through_cannot_be_written_and_what_is_hidden_does_not_show(rung, places):
    require_rung(rung)
    seen = look_around(rung, places, surroundings(places))
    assert seen["read_solution"] == "precious"
    assert (seen["write_tmp"], seen["write_scratch"]) == ("done", "done")
    refused = {key: seen[key] for key in ("write_solution", "delete", "rename")}
    assert "done" not in refused.values(), refused
    unread = {key: seen[key] for key in ("read_hidden", "read_elsewhere", "by_the_old_folder")}
    assert set(unread.values()) == {"FileNotFoundError"}, unread
    assert sorted(p.name for p in places["work"].iterdir()) == ["mine.py", "results", "sub"]
    assert (places["work"] / "mine.py").read_text() == "precious"
    assert not (TMP / "own").exists()
    assert (places["scratch"] / "tmp" / "own").exists()
    assert seen["here"] == str(places["work"])


@WITH_NAMESPACES
def test_an_earlier_builds_links_lead_nowhere(rung, places, tmp_path):
    """What a build left in its /tmp is a stranger's: a link there must not say where things are bound."""
    require_rung(rung)
    victim = tmp_path / "victim"
    victim.mkdir()
    first = tmp_path.relative_to(namespaces.place()).parts[0]
    temporary = places["scratch"] / "tmp"
    (temporary / first).symlink_to(victim)
    (temporary / "kept").symlink_to(victim)
    seen = look_around(rung, places, surroundings(places))
    assert seen["read_solution"] == "precious"
    assert list(victim.iterdir()) == []


def test_places_of_what_showed_through_are_cleared_and_nothing_else(tmp_path):
    """Also where a build put a link in the way."""
    folder, outside = tmp_path / "tmp", tmp_path / "outside"
    real = namespaces.place()
    for place in (folder / "a/b", folder / "c/d", folder / "c/mine", outside / "f"):
        place.mkdir(parents=True)
    (folder / "file.py").touch()
    (folder / "e").symlink_to(outside)
    around = namespaces.Surroundings(
        temporary=str(folder),
        own=(f"{real}/a/b", f"{real}/e/f"),
        seen=(f"{real}/c/d", f"{real}/file.py", f"{real}/no/g"),
    )
    namespaces.clear(around)
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == [
        "outside",
        "outside/f",
        "tmp",
        "tmp/c",
        "tmp/c/mine",
        "tmp/e",
    ]


def test_a_solution_right_in_tmp_shows_with_what_it_is_built_from_alone(name, tmp_path):
    solution = namespaces.place() / f"{name}.py"
    solution.write_text("import torch\n")
    try:
        around = hidden_paths.surroundings(tmp_path, own=[], files=[solution], hidden=[])
        assert str(solution) in around.seen
        assert str(namespaces.place()) not in around.seen
    finally:
        solution.unlink()
