"""The build cache: what a solution is made of, keys, entries that appear as a whole, and what compilers say."""

import os
import tempfile
import threading
import time
from pathlib import Path

import pytest

from kbench.core.errors import MachineError
from kbench.measure import build, sources
from kbench.measure.build import CacheEntry


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files below a folder; return the path of `solution.py`."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "solution.py"


def names(path: Path) -> set[str]:
    return {file.relative_to(path.parent).as_posix() for file in sources.dependencies(path)}


FILES = {
    "solution.py": 'import beside\nfrom torch.utils.cpp_extension import load\nload("x", [here("kernel.cu")])\n',
    "beside.py": "from further import constant\n",
    "further.py": "constant = 3\n",
    "kernel.cu": '#include "tile.cuh"\n  #  include <inner/shared.h>\n#include <cuda.h>\n// #include "comment.h"\n',
    "tile.cuh": '#include "deepest.cuh"\n#include "solution_is_no_header.h"\n',
    "deepest.cuh": '#pragma once\n#include "tile.cuh"\n',
    "include/inner/shared.h": "int shared;\n",
    "comment.h": "",
    "unrelated.py": "",
    "unrelated.cu": "",
}
WANTED = {"solution.py", "beside.py", "further.py", "kernel.cu", "tile.cuh", "deepest.cuh", "include/inner/shared.h"}


# --- what a solution is made of ------------------------------------------------


def test_dependencies_are_followed_through_imports_and_includes(tmp_path) -> None:
    assert names(write(tmp_path, FILES)) == WANTED


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("import pack", {"pack/__init__.py"}),
        ("import pack.inner", {"pack/__init__.py", "pack/inner.py", "pack/sibling.py", "root.py"}),
        ("from pack import inner", {"pack/__init__.py", "pack/inner.py", "pack/sibling.py", "root.py"}),
        ("from pack.inner import x", {"pack/__init__.py", "pack/inner.py", "pack/sibling.py", "root.py"}),
        ("from . import root", {"root.py"}),
        ("from .root import x", {"root.py"}),
        ("def f():\n    import root", {"root.py"}),
        ("import torch, json", set()),
        ('source = """\n#include "a.h"\n"""', {"a.h"}),
        ("text = " + repr("x" * 5000 + ".cu"), set()),
        ("this is no Python", set()),
    ],
)
def test_forms_of_references(tmp_path, line, files) -> None:
    package = {
        "pack/__init__.py": "",
        "pack/inner.py": "from . import sibling\nfrom ..root import x\n",
        "pack/sibling.py": "",
        "root.py": "",
        "a.h": "",
    }
    assert names(write(tmp_path, {"solution.py": line + "\n", **package})) == {"solution.py", *files}


def test_kernels_come_from_the_solutions_own_checkout(tmp_path) -> None:
    solution = {"solutions/solution.py": "from kbench.kernels import mine\nfrom kbench.kernels.other import f\n"}
    kernels = {"mine.py": 'load(sources=["mine.cu"])\n', "other.py": "", "mine.cu": "", "include/common.cuh": ""}
    kernels["mine.cu"] = '#include "common.cuh"\n'
    write(tmp_path, {**solution, **{f"kbench/kernels/{name}": text for name, text in kernels.items()}})
    write(tmp_path, {"kbench/kernels/__init__.py": ""})
    found = sources.dependencies(tmp_path / "solutions" / "solution.py")
    relative = {file.relative_to(tmp_path).as_posix() for file in found}
    assert {f"kbench/kernels/{name}" for name in kernels} <= relative
    assert all(file.is_relative_to(tmp_path) for file in found)


def test_elsewhere_kernels_are_the_installed_ones(tmp_path) -> None:
    path = write(tmp_path, {"solution.py": "from kbench.kernels import group_norm\n"})
    found = sources.dependencies(path)
    assert sources.PACKAGE / "kernels" / "group_norm.py" in found


@pytest.mark.parametrize("name", sorted(WANTED))
def test_the_hash_changes_with_every_file_it_covers(tmp_path, name) -> None:
    path = write(tmp_path, FILES)
    before = sources.source_sha256(path)
    with (tmp_path / name).open("a") as stream:
        stream.write("\n")
    assert sources.source_sha256(path) != before


def test_the_hash_ignores_the_rest(tmp_path) -> None:
    path = write(tmp_path / "one", FILES)
    before = sources.source_sha256(path)
    (path.parent / "unrelated.py").write_text("changed = True\n")
    assert sources.source_sha256(path) == before
    assert sources.source_sha256(write(tmp_path / "moved", FILES)) == before
    assert sources.source_sha256(path, "compile") != before


# --- what strangers name -------------------------------------------------------

ODD_NAMES = [
    "/proc/self/mem",
    "/proc/kmsg",
    "/proc/kcore",
    "/dev/zero",
    "../" * 40 + "proc/self/mem",
    "pipe.h",
    "zero.h",
    "circle.h",
    "folder.h",
    "a" * 300 + ".h",
    "a/" * 3000,
    "\0.h",
    "\ud800.h",
]


@pytest.fixture
def odd(tmp_path) -> Path:
    """Return the path of a solution's file with odd things beside it."""
    folder = tmp_path / "mine"
    write(tmp_path, {"outside/secret.h": "", "mine/inner/deep.h": "", "mine/beside.h": "", "mine/include/far.h": ""})
    os.mkfifo(folder / "pipe.h")
    (folder / "folder.h").mkdir()
    for name, target in {"zero.h": "/dev/zero", "circle.h": "circle.h", "outside.h": "../outside/secret.h"}.items():
        (folder / name).symlink_to(target)
    return folder / "solution.py"


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("where", ["string", "source"])
def test_odd_names_lead_nowhere(odd, name, where) -> None:
    line = f'#include "{name}"\n#include "beside.h"\n'
    text = f"S = {line!r}\n" if where == "source" else f'S = r"""\n{line}"""\n'
    odd.write_bytes((f'import torch\nT = {name!r}\nU = "kernel.cu"\n' + text).encode("utf-8", "surrogatepass"))
    (odd.parent / "kernel.cu").write_bytes(line.encode("utf-8", "surrogatepass"))
    assert {file.name for file in sources.dependencies(odd)} <= {odd.name, "kernel.cu", "beside.h"}
    assert len(sources.source_sha256(odd)) == 64
    assert not sources.compiles(odd, None)


@pytest.mark.parametrize(
    ("name", "followed"),
    [
        ("beside.h", True),
        ("inner/deep.h", True),
        ("inner/../beside.h", True),
        ("../mine/beside.h", True),
        ("{folder}/inner/deep.h", True),
        ("far.h", True),
        ("{kernels}/include/launch.cuh", True),
        ("launch.cuh", True),
        ("../outside/secret.h", True),
        ("{folder}/../outside/secret.h", True),
        ("outside.h", True),
        ("secret.h", False),
        ("cuda_runtime.h", False),
    ],
)
def test_includes_are_followed_by_paths_from_a_folder_of_sources(odd, name, followed) -> None:
    given = name.format(folder=odd.parent, kernels=sources.PACKAGE / "kernels")
    odd.write_text(f'SOURCE = """\n#include "{given}"\n"""\n')
    assert (len(sources.dependencies(odd)) > 1) is followed


@pytest.mark.parametrize(
    ("place", "folder", "expected"),
    [
        ("/proc/self/mem", "/", True),
        ("/dev/shm/mine/a.h", "/", True),
        ("/dev/shm/mine/a.h", "/dev/shm/mine", False),
        ("/proc/self/mem", "/dev/shm/mine", True),
        ("/home/dev/a.h", "/", False),
        ("/device/a.h", "/home", False),
    ],
)
def test_what_only_looks_like_a_file(place, folder, expected) -> None:
    assert sources.is_odd(Path(place), Path(folder)) is expected


@pytest.mark.parametrize("line", ["import proc.self.environ", "import " + "b" * 300, "from " + "." * 300 + " import x"])
def test_odd_imports_lead_nowhere(tmp_path, line) -> None:
    assert names(write(tmp_path, {"solution.py": line + "\n"})) == {"solution.py"}


@pytest.mark.parametrize(
    "text", ["x = '\0'", "x = " + "-" * 50_000 + "1", "import a" + ".a" * 100_000, "# coding: hex"]
)
def test_a_hostile_module_beside_a_solution_is_followed_no_further(tmp_path, text) -> None:
    path = write(
        tmp_path, {"solution.py": "import beside\n", "beside.py": f"{text}\nimport further\n", "further.py": ""}
    )
    assert names(path) == {"solution.py", "beside.py"}


def test_a_very_long_file_is_known_by_its_beginning_size_and_date(tmp_path) -> None:
    path = write(tmp_path, {"solution.py": "S = 'long.cu'\n", "long.cu": "int x;\n"})
    with (tmp_path / "long.cu").open("r+") as file:
        file.truncate(1 << 40)
    before = sources.source_sha256(path)
    with (tmp_path / "long.cu").open("r+") as file:
        file.truncate((1 << 40) + 1)
    assert sources.source_sha256(path) != before


@pytest.mark.parametrize(
    "text",
    ["#include <\n" * 200_000, "".join(f'#include "{n}"\n' for n in range(100_000)), "#" + " " * 1_000_000],
    ids=["unfinished", "many", "blank"],
)
def test_following_takes_no_time(tmp_path, text) -> None:
    path = write(tmp_path, {"solution.py": "S = 'odd.cu'\n", "odd.cu": text})
    started = time.monotonic()
    assert names(path) == {"solution.py", "odd.cu"}
    assert time.monotonic() - started < 20


# --- keys ----------------------------------------------------------------------


def test_the_key_covers_source_device_toolchain_and_builtin(tmp_path, monkeypatch) -> None:
    path = write(tmp_path, FILES)
    cache = tmp_path / "cache"

    def key(builtin: str | None = None, device: str = "cpu") -> Path:
        return build.entry_for(path, builtin, device, cache).folder

    first = key()
    assert first == key()
    assert first.parent == cache / "builds"
    different = [key(device="H200 sm_90"), key(device="H100 sm_90"), key("eager"), key("compile")]
    monkeypatch.setattr(build, "toolchain", lambda: "another nvcc")
    different.append(key())
    monkeypatch.undo()
    monkeypatch.setattr(build, "FORMAT", build.FORMAT + 1)
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
        found[compiler] = build.toolchain.__wrapped__()
    assert "fake compiler 1.2" in found[str(fake)]
    assert "absent" in found["/nonexistent/compiler"]


# --- entries -------------------------------------------------------------------


def staged(entry: CacheEntry, text: str) -> Path:
    staging = entry.stage()
    (staging / "artefact").write_text(text)
    (staging / "only").mkdir(exist_ok=True)
    (staging / "only" / text).touch()
    return staging


def test_an_entry_appears_when_it_is_published(tmp_path) -> None:
    entry = CacheEntry(folder=tmp_path / "builds" / "key")
    assert (entry.is_built, entry.rehearsed()) == (False, set())
    staging = staged(entry, "one")
    assert not entry.folder.exists()
    assert staging.parent == entry.folder.parent
    entry.publish(staging, {"b", "a"})
    assert (entry.is_built, entry.rehearsed()) == (True, {"a", "b"})
    assert not staging.exists()


def test_staging_begins_with_what_there_is_and_changes_nothing(tmp_path) -> None:
    entry = CacheEntry(folder=tmp_path / "builds" / "key")
    entry.publish(staged(entry, "one"), {"a"})
    staging = staged(entry, "two")
    assert (staging / "only" / "one").exists()
    assert (entry.folder / "artefact").read_text() == "one"
    entry.publish(staging, {"a", "b"})
    assert (entry.folder / "artefact").read_text() == "two"
    assert os.listdir(tmp_path / "builds") == ["key"]  # noqa: PTH208 - hidden leftovers count


def test_a_worker_gets_a_copy_of_its_own(tmp_path) -> None:
    entry = CacheEntry(folder=tmp_path / "builds" / "key")
    entry.copy_to(tmp_path / "nothing yet")
    entry.publish(staged(entry, "one"), ())
    entry.copy_to(tmp_path / "copy")
    (tmp_path / "copy" / "artefact").write_text("forged")
    assert (entry.folder / "artefact").read_text() == "one"


def test_builders_that_race_leave_one_whole_entry(tmp_path) -> None:
    entry = CacheEntry(folder=tmp_path / "builds" / "key")
    stagings = [staged(entry, f"builder{n}") for n in range(24)]
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(stagings))

    def publish(staging: Path) -> None:
        barrier.wait()
        try:
            entry.publish(staging, {staging.name})
        except BaseException as error:  # noqa: BLE001 - the thread's failure is the test's
            errors.append(error)

    threads = [threading.Thread(target=publish, args=(staging,)) for staging in stagings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    winner = (entry.folder / "artefact").read_text()
    assert [file.name for file in (entry.folder / "only").iterdir()] == [winner]
    assert len(entry.rehearsed()) == 1
    assert os.listdir(tmp_path / "builds") == ["key"]  # noqa: PTH208 - hidden leftovers count


def test_a_copy_taken_while_others_publish_is_one_whole_build(tmp_path) -> None:
    entry = CacheEntry(folder=tmp_path / "builds" / "key")
    entry.publish(staged(entry, "build0"), ())
    done = threading.Event()
    errors: list[BaseException] = []

    def publish() -> None:
        try:
            for number in range(1, 150):
                staging = Path(tempfile.mkdtemp(dir=entry.folder.parent))
                for name in ("artefact", *(f"part{n}" for n in range(20))):
                    (staging / name).write_text(f"build{number}")
                entry.publish(staging, ())
        except BaseException as error:  # noqa: BLE001 - the thread's failure is the test's
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=publish)
    thread.start()
    copies = 0
    while not done.is_set() or not copies:
        copy = tmp_path / f"copy{copies}"
        entry.copy_to(copy)
        texts = {file.read_text() for file in copy.iterdir() if file.is_file() and file.name != "built.json"}
        assert len(texts) == 1, "a copy is of one build"
        assert (copy / "built.json").exists()
        copies += 1
    thread.join()
    assert errors == []


def test_a_copy_that_cannot_be_made_is_an_error(tmp_path) -> None:
    entry = CacheEntry(folder=tmp_path / "builds" / "key")
    entry.publish(staged(entry, "one"), ())
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        entry.copy_to(tmp_path / "file" / "copy")


def test_a_broken_record_is_no_rehearsal(tmp_path) -> None:
    entry = CacheEntry(folder=tmp_path)
    for text in ("", "[]", "{}", '{"rehearsed":'):
        (tmp_path / "built.json").write_text(text)
        assert entry.rehearsed() == set()


# --- what needs a compiler -----------------------------------------------------


@pytest.mark.parametrize(
    ("text", "compiles", "compiler"),
    [
        ("import torch\n", False, ""),
        ("from torch.utils.cpp_extension import load_inline\n", True, ""),
        ("import triton\n", True, "kernels"),
        ("f = torch.compile(model)\n", True, "graphs"),
        ("import triton\nf = torch.compile(model)\n", True, "graphs"),
        ("f = torch.jit.script(model)\n", True, ""),
        ("import helper\n", True, "kernels"),
        ("note = 'tritonic'\n", False, ""),
    ],
)
def test_what_needs_a_compiler(tmp_path, text, compiles, compiler) -> None:
    path = write(tmp_path, {"solution.py": text, "helper.py": "import triton.language as tl\n"})
    assert sources.compiles(path, None) is compiles
    assert sources.compiler_of(path, None) == compiler
    for builtin, expected in (("eager", ""), ("compile", "graphs")):
        assert sources.compiles(path, builtin) is bool(expected)
        assert sources.compiler_of(path, builtin) == expected


# --- what compilers say --------------------------------------------------------

LOGS = {
    "nvcc": (
        (
            "[1/2] nvcc -c a.cu\na.cu(1): warning #177-D: variable was declared but never referenced\n"
            'a.cu(2): error: identifier "undefined_name" is undefined\n  p[0] = undefined_name;\n\n'
            '1 error detected in the compilation of "a.cu".\nninja: build stopped: subcommand failed.\n'
        ),
        'a.cu(2): error: identifier "undefined_name" is undefined',
    ),
    "ptxas": (
        (
            "ptxas info    : 0 bytes gmem\n"
            "ptxas error   : Entry function '_Z1kPf' uses too much shared data (0x40000 bytes, 0xc000 max)\n"
        ),
        "ptxas error   : Entry function '_Z1kPf' uses too much shared data (0x40000 bytes, 0xc000 max)",
    ),
    "nvcc fatal": (
        "nvcc fatal   : Unsupported gpu architecture 'sm_12'\n",
        "nvcc fatal   : Unsupported gpu architecture 'sm_12'",
    ),
    "g++": (
        (
            "b.cpp: In function ‘int main()’:\n"
            "b.cpp:2:22: error: invalid conversion from ‘const char*’ to ‘int’ [-fpermissive]\n    2 | int main()\n"
        ),
        "b.cpp:2:22: error: invalid conversion from ‘const char*’ to ‘int’ [-fpermissive]",
    ),
    "missing header": (
        "e.cpp:1:10: fatal error: not_there.h: No such file or directory\ncompilation terminated.\n",
        "e.cpp:1:10: fatal error: not_there.h: No such file or directory",
    ),
    "linker": (
        (
            "/usr/bin/ld: /tmp/c.o: in function `main':\n"
            "c.cpp:(.text+0xa): undefined reference to `missing_function(int)'\n"
            "collect2: error: ld returned 1 exit status\n"
        ),
        "c.cpp:(.text+0xa): undefined reference to `missing_function(int)'",
    ),
    "missing library": (
        "/usr/bin/ld: cannot find -lnot_there: No such file or directory\ncollect2: error: ld returned 1 exit status\n",
        "/usr/bin/ld: cannot find -lnot_there: No such file or directory",
    ),
    "in the folder of the build": (
        '/cache/builds/.5cda90-x/extensions/mine/cuda.cu(5): error: identifier "x" is undefined\n',
        'mine/cuda.cu(5): error: identifier "x" is undefined',
    ),
    "torch without CUDA": (
        "/usr/bin/ld: cannot find -lc10_cuda: No such file or directory\ncollect2: error: ld returned 1 exit status\n",
        "its CUDA sources compile, but this torch was built without CUDA and cannot link them",
    ),
    "no nvcc": (
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.\n",
        "no CUDA compiler: nvcc is not on PATH, and CUDA_HOME is not set",
    ),
    "none": (
        (
            "a.cu(1): warning #177-D: variable error_count was declared but never referenced\n0 errors\n"
            "RuntimeError: Error building extension 'x'\n"
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_first_error(name) -> None:
    log, expected = LOGS[name]
    assert build.first_error(log) == expected


@pytest.mark.parametrize(
    ("text", "compiles", "extension"),
    [
        ("import torch", False, False),
        ("from torch.utils.cpp_extension import load", True, True),
        ("import subprocess", True, False),
        ("import triton", True, False),
        ("os.system('gcc kernel.c')", True, False),
    ],
)
def test_what_may_compile(tmp_path, text, compiles, extension) -> None:
    path = write(tmp_path, {"solution.py": text + "\n"})
    assert (sources.compiles(path, None), sources.has_extension(path, None)) == (compiles, extension)


def test_a_cache_that_cannot_be_written_is_the_machines_fault(tmp_path):
    (tmp_path / "file").write_text("")
    entry = CacheEntry(folder=tmp_path / "file" / "builds" / "key")
    with pytest.raises(MachineError, match="cannot be written: Not a directory") as caught:
        entry.stage()
    assert "KBENCH_CACHE" in (caught.value.hint or "")
