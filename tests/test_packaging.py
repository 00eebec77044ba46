"""The wheel, installed where nothing of this checkout is in reach, verifies what it ships."""

import json
import os
import site
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "KBENCH_CACHE"}}
    return subprocess.run(
        [str(part) for part in command],
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**inherited, **environment},
        timeout=900,  # devices are leased: another kbench on this machine may have to finish first
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    done = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """Folder of the programs of a fresh environment with the wheel; dependencies are borrowed from this one."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place)
    packages = Path(sysconfig.get_path("purelib", vars={"base": place, "platbase": place}))
    borrowed = [path for path in (*site.getsitepackages(), sysconfig.get_path("purelib")) if Path(path).is_dir()]
    (packages / "borrowed.pth").write_text("\n".join(dict.fromkeys(borrowed)) + "\n")
    python = place / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", "--no-compile")
    done = run(*pip, "--force-reinstall", wheel, cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "bin"


def test_the_wheel_ships_sources_and_no_tests(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    kernels = {str(path.relative_to(ROOT)) for path in (ROOT / "kbench" / "kernels").rglob("*.c*")}
    assert {name for name in kernels if "__pycache__" not in name} <= names
    assert {"kbench/py.typed", "kbench/problems/group_norm.py", "kbench/solutions/group_norm/cpp_openmp.py"} <= names
    assert {"kbench/cli/templates/cuda.py.txt", "kbench/cli/templates/triton.py.txt"} <= names
    assert not [name for name in names if name.startswith(("tests/", "results/"))]


def test_it_verifies(installed, tmp_path):
    done = run(
        *(installed / "kbench", "verify", "group_norm", "cpp_openmp", "--case", "small", "--device", "cpu"),
        *("--level", "task", "--json"),
        cwd=tmp_path,
        KBENCH_CACHE=str(tmp_path / "cache"),
        PATH=f"{installed}{os.pathsep}{os.environ['PATH']}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    where = run(installed / "python", "-c", "import kbench; print(kbench.__file__)", cwd=tmp_path)
    assert str(installed.parent) in where.stdout
    document = json.loads(done.stdout)
    assert document["status"] == "passed"
    assert Path(tmp_path / document["csv"]).is_file()
