"""What workers must not read: which paths that is, and that a solution cannot in a run."""

from pathlib import Path

import pytest

from kbench.cli.app import main
from kbench.sandbox import hidden_paths, rung_probe
from kbench.sandbox.rungs import Rung

FILES = Path(__file__).parents[1] / "kernelbench"

READS_EVERYTHING = """
import glob
import os

import torch
from torch import nn

TOPS = [top for pattern in {patterns} for top in glob.glob(pattern, include_hidden=True)]
# Links are not followed: one of pytest's leads back to a folder above.
FOUND = TOPS + [os.path.join(folder, name) for top in TOPS for folder, _, names in os.walk(top) for name in names]
MINE = os.path.realpath(os.environ["TMPDIR"])


def readable(path):
    try:
        return bool(open(path).read())
    except OSError:
        return False


SECRETS = [p for p in FOUND if os.path.isfile(p) and not os.path.realpath(p).startswith(MINE) and readable(p)]


class ModelNew(nn.Module):
    def forward(self, x):
        assert not SECRETS, f"can read {{SECRETS[:5]}}"
        assert readable(__file__)
        assert readable({problem!r})
        return torch.nn.functional.silu(x)
"""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A user's home with a checkout, results, credentials, a cache with builds, and another run's folder."""
    for name in (
        "home/.ssh/id_ed25519",
        "home/.netrc",
        "home/work/.git/config",
        "home/work/results/baselines/main.csv",
        "cache/builds/other/extensions/fast.so",
        "tmp/kbench-other/worker-1-1/cache/fast.so",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("secret")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path / "home" / "work")
    return tmp_path


def hidden(home: Path, solution: Path) -> set[str]:
    found = hidden_paths.hidden(
        results=Path("results"), others=[home / "cache", home / "tmp" / "kbench-this"], files=[solution]
    )
    return {str(path.relative_to(home)) for path in found if path.is_relative_to(home)}


def test_results_caches_other_runs_and_credentials_are_hidden(home):
    assert hidden(home, home / "home/work/mine.py") == {
        "home/.ssh",
        "home/.netrc",
        "home/work/.git",
        "home/work/results",
        "cache",
        "tmp/kbench-other",
        "tmp/kbench-this",
    }


def test_what_the_worker_needs_is_not_hidden(home, monkeypatch):
    (home / "home/.venv/bin").mkdir(parents=True)
    monkeypatch.setattr("sys.prefix", str(home / "home/.venv"))
    hidden_paths._interpreter.cache_clear()
    try:
        assert "home/.venv" not in hidden(home, home / "home/work/mine.py")
        assert "home/.ssh" not in hidden(home, home / "home/.ssh/mine.py")
        assert "home/.netrc" in hidden(home, home / "home/.ssh/mine.py")
    finally:
        hidden_paths._interpreter.cache_clear()


@pytest.mark.slow
def test_a_solution_reads_none_of_it_neither_judged_nor_built(home, capsys):
    if not any(rung_probe.works(rung, "cpu") is None for rung in (Rung.FULL, Rung.LANDLOCK)):
        pytest.skip("no rung that protects files works here")
    problem = str(FILES / "25_Swish.py")
    patterns = [f"{home}/{place}" for place in ("home/.*", "home/work/.git", "home/work/results", "cache", "tmp")]
    source = READS_EVERYTHING.format(patterns=patterns, problem=problem)
    # A builder is started only for what mentions a compiler; there an error at import ends the run.
    source += "\n\nassert not SECRETS, f'can read {SECRETS[:5]}'  # load_inline\n"
    Path("mine.py").write_text(source)
    with pytest.raises(SystemExit) as ended:
        main(["verify", problem, "mine.py", "--device", "cpu", "--level", "task", "--json"])
    assert ended.value.code == 0, capsys.readouterr().out
