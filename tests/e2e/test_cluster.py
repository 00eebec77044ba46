"""A sweep over several hosts: Ray's nodes are processes of this machine, and one of them is killed in the middle."""

import contextlib
import csv
import json
import signal
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import commands
import pytest
from tiny_corpus import BODIES, problem, solution
from waiting import wait_until

from kbench.sandbox.process_table import processes

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra `ray`")

ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0
STORE_BYTES = 80_000_000
WANTED = {f"{name}_{number}": status for name, (_, status) in BODIES.items() for number in range(2)}
QUICK = {
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 4,
    "health_check_initial_delay_ms": 0,
}
"""How soon a node that does not answer counts as dead: Ray's own figures take half a minute."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    """Three nodes: one for the driver, without a processor to judge on, and two that judge."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES, "_system_config": QUICK}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")
        patch.setenv("PYTHONPATH", str(ROOT))
        made = Cluster(initialize_head=True, head_node_args=head)
        made.judging = [made.add_node(num_cpus=1, object_store_memory=STORE_BYTES) for _ in range(2)]
        yield made
        with contextlib.suppress(Exception):  # of a node that was killed
            made.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One problem, and solutions with different ends: enough of them that each node is busy when the first is done."""
    (tmp_path / "doubles.py").write_text(problem())
    for name in WANTED:
        body, _ = BODIES[name.partition("_")[0]]
        text = solution(body.format(factor=2))
        (tmp_path / f"doubles_{name}.py").write_text(f"{text}# {name}: equal sources are judged once\n")
    return tmp_path


def start(folder: Path, address: str, *more: str) -> subprocess.Popen[str]:
    command = ["sweep", "doubles.py", "doubles_*.py", "--executor", "ray", "--address", address, "--devices", "cpu"]
    command += ["--until", "verify", "--name", "one", *more]
    return commands.start(folder, *command)


def statuses(folder: Path) -> dict[str, str]:
    with (folder / "results" / "one.csv").open() as file:
        return {row["solution"].removeprefix("doubles_"): row["status"] for row in csv.DictReader(file)}


def lines(folder: Path) -> list[dict]:
    """What the journal says of units; a last line may be half written."""
    path = folder / "results" / "one.journal.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines(True)[1:] if line.endswith("\n")]


def has_units(folder: Path) -> bool:
    return (folder / "results" / "one.journal.jsonl").exists() and bool(lines(folder))


def judges(cluster: object) -> set[int]:
    """Everything that supervisors started: what is two generations and more below the raylets."""
    table = {pid: found for pid, found in processes().items() if not found.dead}
    level = {node.all_processes["raylet"][0].process.pid for node in cluster.judging}
    generations = []
    while level:
        level = {pid for pid, found in table.items() if found.parent in level}
        generations.append(level)
    return set().union(*generations[1:])


@pytest.mark.slow(seconds=20)
def test_an_interrupted_sweep_tells_what_it_has_and_leaves_no_process(cluster, folder: Path) -> None:
    running = start(folder, cluster.address, "--json")
    wait_until(lambda: has_units(folder) or running.poll() is not None, LIMIT_S)
    below = judges(cluster)
    assert below
    running.send_signal(signal.SIGTERM)  # the harder one: Ray takes it, and Ctrl-C not
    out, err = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 130, err
    told = {line["solution"]: line["result"]["outcome"].get("status", "passed") for line in lines(folder)}
    assert {one["solution"]: one["status"] for one in json.loads(out)["results"]} == told
    assert statuses(folder) == {name.removeprefix("doubles_"): status for name, status in told.items()}
    wait_until(lambda: not below & set(processes()), LIMIT_S)


@pytest.mark.slow(seconds=20)
def test_a_node_that_is_killed_loses_nothing(cluster, folder: Path, monkeypatch, kbench) -> None:
    running = start(folder, cluster.address, "--json")
    wait_until(lambda: has_units(folder) or running.poll() is not None, LIMIT_S)
    below = judges(cluster)
    cluster.remove_node(cluster.judging[0], allow_graceful=False)
    out, err = running.communicate(timeout=LIMIT_S)
    assert json.loads(out)["summary"]["done"] == len(WANTED), "Ray prints nothing into the document"
    assert statuses(folder) == WANTED, err
    assert sorted(line["solution"].removeprefix("doubles_") for line in lines(folder)) == sorted(WANTED), "each once"
    assert "is lost" in err
    assert "host_lost" in json.dumps(lines(folder)), "the record says so, whatever the outcome"
    wait_until(lambda: not below & set(processes()), LIMIT_S)
    monkeypatch.chdir(folder)
    resumed = kbench("sweep", "--resume", "one", "--devices", "cpu", "--json").document
    assert resumed["summary"]["resumed"] == len(WANTED), "on this host: the same tasks"
