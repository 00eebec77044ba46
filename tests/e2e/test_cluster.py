"""A sweep over several hosts: Ray's nodes are processes of this machine, and one of them is killed in the middle."""

import contextlib
import csv
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_sweep import BODIES, PROBLEM, SOLUTION

from kbench.sandbox.process_tree import members

pytest.importorskip("ray", reason="needs the extra `ray`")

LIMIT_S = 300.0
STORE_BYTES = 80_000_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Three nodes: one for the driver, without a processor to judge on, and two that judge."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES},
    )
    made.judging = [made.add_node(num_cpus=1, object_store_memory=STORE_BYTES) for _ in range(2)]
    yield made
    with contextlib.suppress(Exception):  # of a node that was killed
        made.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One problem, and solutions with different ends."""
    (tmp_path / "doubles.py").write_text(PROBLEM.format(factor=2))
    for name, (body, _) in BODIES.items():
        (tmp_path / f"doubles_{name}.py").write_text(SOLUTION.format(body=body.format(factor=2)))
    return tmp_path


def start(folder: Path, address: str, *more: str) -> subprocess.Popen[str]:
    command = ["sweep", "doubles.py", "doubles_*.py", "--executor", "ray", "--address", address, "--devices", "cpu"]
    command += ["--until", "verify", "--name", "one", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "kbench", *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def statuses(folder: Path) -> dict[str, str]:
    with (folder / "results" / "one.csv").open() as file:
        return {row["solution"].removeprefix("doubles_"): row["status"] for row in csv.DictReader(file)}


@pytest.mark.slow
def test_a_node_that_is_killed_loses_nothing(cluster, folder: Path) -> None:
    running = start(folder, cluster.address)
    journal = folder / "results" / "one.journal.jsonl"
    until = time.monotonic() + LIMIT_S
    while not (journal.exists() and journal.read_text().count("\n") > 1):  # the header, and a unit
        assert running.poll() is None, running.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.05)
    cluster.remove_node(cluster.judging[0], allow_graceful=False)
    told, _ = running.communicate(timeout=LIMIT_S)
    assert statuses(folder) == {name: status for name, (_, status) in BODIES.items()}, told
    with (folder / "results" / "one.csv").open() as file:
        assert set(Counter(row["solution"] for row in csv.DictReader(file)).values()) == {1}
    assert "is lost" in told
    again = start(folder, cluster.address)
    assert "exists already" in again.communicate(timeout=LIMIT_S)[0]
    assert not [pid for pid in members(os.getpid()) if "kbench.children" in _command(pid)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.mark.slow
def test_where_no_cluster_answers_it_says_how_to_start_one(folder: Path) -> None:
    told, _ = start(folder, "127.0.0.1:1").communicate(timeout=LIMIT_S)
    assert "no Ray cluster answers at 127.0.0.1:1" in told
    assert "ray start --head" in told
