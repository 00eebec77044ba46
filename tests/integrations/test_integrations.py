"""The adapters of docs/integrations, with the packages that they are for, against a server on loopback.

    pip install verifiers==0.4.0 openenv-core==0.3.0 ray tensordict hydra-core codetiming
    pip install --no-deps verl==0.9.1

in an environment of their own, beside kbench's packages: their pins contradict each other. What is not installed is
skipped.
"""

import asyncio
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from pooling import CASES, solution
from serving import TOKEN, Running, serving

FOLDER = Path(__file__).parents[2] / "docs" / "integrations"
ENDS = [("passed", 1.0), ("wrong_value", 0.0), ("build_failed", 0.0)]


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[Running]:
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "own.py").write_text(CASES)
    (tmp_path / "pyproject.toml").write_text('[tool.kbench]\npaths = ["problems"]\n')
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path / "state") as running:
        monkeypatch.setenv("KBENCH_URL", running.url)
        monkeypatch.setenv("KBENCH_TOKEN", TOKEN)
        yield running


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reply(says: str) -> str:
    return f"First a draft:\n```python\nx = 1 + 1 + 1\n```\nNow:\n```python\n{solution(says)}```\nDone."


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_an_adapter_has_50_lines_or_fewer(path) -> None:
    assert len(path.read_text().splitlines()) <= 50


def test_verl(server) -> None:
    reward = pytest.importorskip("verl.trainer.ppo.reward", reason="verl is not installed", exc_type=ImportError)
    from omegaconf import OmegaConf

    told = {"path": str(FOLDER / "verl_reward.py"), "name": "compute_score", "reward_kwargs": {"policy": "correct"}}
    compute = reward.get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": told}}))

    def score(text: str) -> dict:
        return asyncio.run(compute(data_source="kbench", solution_str=text, ground_truth="own", extra_info={}))

    for verdict, worth in ENDS:
        assert score(reply(verdict)) == {"score": worth, "verdict": verdict}
    assert score("I cannot do that.") == {"score": 0.0, "verdict": "no_code"}
    with pytest.raises(RuntimeError, match="no reward for own: harness_error"):
        score(reply("harness_error"))
    assert len(server.pool.judged) == 3 + 3 * 3, "the pool tries a harness error three times, and so does the adapter"


def test_verifiers(server, tmp_path) -> None:
    vf = pytest.importorskip("verifiers.v1", reason="verifiers is not installed", exc_type=ImportError)
    from verifiers.v1.trace import AgentInfo, TraceTask

    module = load("verifiers_taskset")
    taskset = module.KernelTaskset(module.KernelConfig(problems=[str(tmp_path / "problems" / "own.py")]))
    (task,) = list(taskset)
    assert CASES in task.data.prompt

    def scored(text: str):
        told = TraceTask(type="KernelTask", data=task.data)
        trace = vf.Trace(task=told, agent=AgentInfo(config=vf.AgentConfig()), root_reply=text)
        asyncio.run(task.score(trace))
        return trace

    for verdict, worth in ENDS:
        trace = scored(reply(verdict))
        assert trace.reward == worth
        assert trace.info["kbench"]["verdict"] == verdict
    assert scored("I cannot do that.").reward == 0.0
    with pytest.raises(vf.TaskError, match="no verdict: harness_error"):
        scored(reply("harness_error"))


def test_openenv(server) -> None:
    pytest.importorskip("openenv.core.env_server", reason="openenv-core is not installed", exc_type=ImportError)
    from fastapi.testclient import TestClient

    module = load("openenv_environment")
    with TestClient(module.app).websocket_connect("/ws") as socket:

        def ask(kind: str, **data) -> dict:
            socket.send_json({"type": kind, **({"data": data} if data else {})})
            return socket.receive_json()["data"]

        for verdict, worth in [*ENDS, ("harness_error", None)]:
            begun = ask("reset", problem="own")
            assert (begun["done"], begun["observation"]["problem"]) == (False, "own")
            found = ask("step", code=solution(verdict))
            assert (found["done"], found["reward"], found["observation"]["verdict"]) == (True, worth, verdict)
            assert ask("state")["step_count"] == 1
