"""What a process reads, lists and starts is observed, however its code says it, and the toolchain is left out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OBSERVED = """
import importlib.util, json, sys
from pathlib import Path
from kbench.build.observation import Observation
path = Path(sys.argv[1])
if "import torch" in path.read_text():
    import torch
observation = Observation()
observation.may_start = sys.argv[2] == "may"
observation.begin(path, [Path(sys.argv[3])])
sys.path.insert(0, str(path.parent))
spec = importlib.util.spec_from_file_location("solution", path)
try:
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
except PermissionError as error:
    observation.denied(error)
print(json.dumps({**(observation.news() or {}), "started": observation.started_programs, "again": observation.news()}))
"""
FILES = {
    "beside.py": "x = 1\n",
    "pack/__init__.py": "from pack.inner import y\n",
    "pack/inner.py": "y = 2\n",
    "csrc/k.cpp": "",
    "csrc/tile.h": "",
    "csrc/detail/inner.inl": "",
    "csrc/detail/Makefile": "",
    "csrc/notes.csv": "",
    "build.sh": "",
    "include/deep.h": "",
    "flags.rsp": "-O2 list.json",
    "lib/libx.a": "",
    "lib/x.ld": "",
    "list.json": '["csrc/k.cpp"]',
}


def observe(folder: Path, code: str, *, may_start: bool = True) -> dict:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    path, scratch = folder / "solution.py", folder.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    path.write_text(f"import os, subprocess, sys\nfrom pathlib import Path\nhere = Path(__file__).parent\n{code}\n")
    command = [sys.executable, "-c", OBSERVED, str(path), "may" if may_start else "not", str(scratch)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("again") is None, "told once"
    paths = {kind: [Path(place) for place in found.get(kind, ())] for kind in KINDS}
    relative = {
        kind: {place.relative_to(folder).as_posix() for place in paths[kind] if place.is_relative_to(folder)}
        for kind in KINDS
    }
    return {**found, **relative}


KINDS = ("files", "folders")


@pytest.mark.parametrize(
    ("code", "files"),
    [
        ("import beside", {"beside.py"}),
        ("import pack", {"pack/__init__.py", "pack/inner.py"}),
        ("(here / 'csrc' / 'k.cpp').read_text()", {"csrc/k.cpp"}),
        ("os.close(os.open(bytes(here / 'pack' / '..' / 'csrc' / 'k.cpp'), os.O_RDONLY))", {"csrc/k.cpp"}),
        ("os.chdir(here); open('list.json').read()", {"list.json"}),
        ("try: open(here / 'tuned.json')\nexcept OSError: pass", {"tuned.json"}),
        ("open(here / 'made', 'w').write('1'); open(here / 'made').read()", set()),
        ("import sqlite3; sqlite3.connect(here / 'list.json')", {"list.json"}),
        ("import sqlite3; sqlite3.connect(f'file:{here}/list.json?mode=ro', uri=True)", {"list.json"}),
        ("import torch; torch.from_file(str(here / 'list.json'), size=4, dtype=torch.uint8)", {"list.json"}),
        ("import torch\ntry: torch.jit.load(here / 'list.json')\nexcept RuntimeError: pass", {"list.json"}),
        ("import json, numpy.version", set()),
        ("open('/proc/self/maps').read(); open('/dev/null').read()", set()),
        ("open(here.parent / 'scratch' / 'x', 'w').close(); open(here.parent / 'scratch' / 'x')", set()),
    ],
)
def test_what_is_read(tmp_path, code, files):
    found = observe(tmp_path / "own", code)
    assert found["files"] - {"solution.py"} == files
    assert not found["started"]


@pytest.mark.parametrize(
    ("code", "folders"),
    [
        ("os.listdir(here / 'csrc')", {"csrc"}),
        ("import glob; glob.glob(str(here / 'csrc' / '*'))", {"csrc"}),
        ("list(os.scandir(here / 'csrc'))", {"csrc"}),
        ("import beside, pack", set()),
    ],
)
def test_what_is_listed(tmp_path, code, folders):
    assert observe(tmp_path / "own", code)["folders"] == folders


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("subprocess.run(['true', 'csrc/k.cpp'], cwd=here)", {"csrc/k.cpp", "csrc/tile.h"}),
        ("subprocess.run(['true', 'csrc'], cwd=here)", {"csrc/detail/inner.inl", "csrc/detail/Makefile"}),
        ("subprocess.run(['true', here / 'build.sh'])", {"build.sh", "csrc/detail/inner.inl", "beside.py"}),
        ("subprocess.run(['true', '-c', f'cd {here}/csrc && make'])", {"csrc/k.cpp", "csrc/detail/Makefile"}),
        ("subprocess.run(['true', f'--source={here}/csrc'])", {"csrc/k.cpp", "csrc/detail/inner.inl"}),
        ("subprocess.run(['true'], cwd=here / 'csrc')", {"csrc/k.cpp", "csrc/detail/inner.inl"}),
        ("subprocess.run(['true', f'-I{here}/include'])", {"include/deep.h"}),
        ("subprocess.run(['true', f'@{here}/flags.rsp'], cwd=here)", {"flags.rsp", "list.json"}),
        ("subprocess.run(['true', '-lx', f'-L{here}/lib'])", {"lib/libx.a"}),
        ("subprocess.run(['true', f'-Wl,-T,{here}/lib/x.ld'])", {"lib/x.ld"}),
        ("os.system(f'true {here}/csrc/k.cpp')", {"csrc/k.cpp", "csrc/tile.h"}),
        ("os.waitpid(os.posix_spawn('/bin/true', ['true'], os.environ), 0)", set()),
        ("os.fork() or os._exit(0); os.wait()", set()),
        ("import multiprocessing as m; m.get_context('spawn').Process(target=int).start()", set()),
        ("import ctypes; ctypes.CDLL(None).system(b'true')", set()),
    ],
)
def test_what_is_started(tmp_path, code, named):
    found = observe(tmp_path / "own", code, may_start=False)
    assert found["started"], "the kernel counts the children that no audit event names"
    assert named <= found["files"]
    assert "csrc/notes.csv" not in found["files"]
    silent = "ctypes" in code or "multiprocessing" in code
    assert bool(found.get("needs")) != silent


def test_what_may_be_started_is_no_need(tmp_path):
    found = observe(tmp_path / "own", "subprocess.run(['true'])")
    assert found["started"]
    assert not found.get("needs")


def test_a_denied_call_is_a_need_whoever_made_it(tmp_path):
    code = "def inner(): raise PermissionError(1, 'Operation not permitted')\ninner()"
    assert observe(tmp_path / "own", code, may_start=False)["needs"]
    code = "open('/root/x' if os.getuid() else '/proc/1/mem', 'w')"
    assert not observe(tmp_path / "own", f"try: {code}\nexcept OSError: pass", may_start=False).get("needs")
