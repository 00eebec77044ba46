"""What a solution is built from: files found without running it, and only plain ones read."""

import os
import time
from pathlib import Path

import pytest

from kbench.build import sources


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


@pytest.mark.parametrize(
    ("text", "compiles", "extension", "compiler"),
    [
        ("import torch", False, False, ""),
        ("from torch.utils.cpp_extension import load_inline", True, True, ""),
        ("import triton", True, False, "kernels"),
        ("f = torch.compile(model)", True, False, "graphs"),
        ("import triton\nf = torch.compile(model)", True, False, "graphs"),
        ("f = torch.jit.script(model)", True, False, ""),
        ("import helper", True, False, "kernels"),
        ("note = 'tritonic'", False, False, ""),
        ("import subprocess", True, False, ""),
        ("os.system('gcc kernel.c')", True, False, ""),
    ],
)
def test_what_may_compile_and_with_what(tmp_path, text, compiles, extension, compiler) -> None:
    path = write(tmp_path, {"solution.py": text + "\n", "helper.py": "import triton.language as tl\n"})
    assert (sources.compiles(path, None), sources.has_extension(path, None)) == (compiles, extension)
    assert sources.compiler_of(path, None) == compiler
    for builtin, expected in (("eager", ""), ("compile", "graphs")):
        assert sources.compiles(path, builtin) is bool(expected)
        assert sources.compiler_of(path, builtin) == expected


def test_a_whole_name_is_looked_for_beside_the_solution(tmp_path) -> None:
    files = {
        "solution.py": "from pack.inner import x\n",
        "pack/__init__.py": "",
        "pack/inner.py": "import third\n",
        "third.py": "",
    }
    assert names(write(tmp_path, files)) == set(files)


def test_files_that_name_each_other_are_not_one_solution(tmp_path) -> None:
    """A wrong one got the verdict of a right one."""
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text('OTHER = "wrong.py"\n')
    wrong.write_text('OTHER = "right.py"\n')
    assert sources.source_sha256(right) == sources.source_sha256(wrong), "they are made of the same"
    assert sources.judged_sha256(right) != sources.judged_sha256(wrong)


def test_the_names_of_files_are_part_of_a_solution_and_their_place_is_not(tmp_path) -> None:
    text = "try:\n    import b\nexcept ImportError:\n    import z\nNAMES = 'a.py'\n"
    folders = [tmp_path / name for name in ("one", "other", "moved")]
    of_one, of_other, moved = (
        sources.judged_sha256(write(folder, {"solution.py": text, name: "x = 1\n", "z.py": "x = 2\n"}))
        for folder, name in zip(folders, ("b.py", "a.py", "b.py"), strict=True)
    )
    assert of_one != of_other
    assert of_one == moved


def test_a_hash_of_kbench_changes_with_its_sources_and_not_with_the_folder_left_out(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sources, "PACKAGE", tmp_path)

    def digest() -> str:
        sources.package_sha256.cache_clear()
        return sources.package_sha256(left_out="attacks")

    first = digest()
    write(tmp_path, {"attacks/one.py": "", "notes.md": ""})
    assert digest() == first
    write(tmp_path, {"core/values.py": "x = 1\n"})
    second = digest()
    write(tmp_path, {"core/values.py": "x = 2\n"})
    assert len({first, second, digest()}) == 3
    sources.package_sha256.cache_clear()
