"""OpenEnv: an environment of one step. `uvicorn openenv_environment:app` serves it."""

import os
import time
import uuid
from typing import Any

import httpx
from openenv.core.env_server import Action, Environment, Observation, State, create_app

URL = os.environ.get("KBENCH_URL", "http://127.0.0.1:8765")


class KernelAction(Action):
    code: str
    """A Python file with `ModelNew`."""


class KernelObservation(Observation):
    """A `reward` of None after a step means that nobody knows: leave such an episode out."""

    problem: str
    verdict: str | None = None
    message: str | None = None
    speedup: float | None = None


class KernelEnvironment(Environment[KernelAction, KernelObservation, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True
    problem, state = "group_norm", State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **told: Any) -> KernelObservation:
        self.problem = told.get("problem", self.problem)
        self.state = State(episode_id=episode_id or str(uuid.uuid4()))
        return KernelObservation(problem=self.problem)

    def step(self, action: KernelAction, timeout_s: float | None = None, **_: Any) -> KernelObservation:
        self.state = State(episode_id=self.state.episode_id, step_count=self.state.step_count + 1)
        if not 10 <= len(action.code) <= 400_000:  # what the server takes
            return KernelObservation(problem=self.problem, done=True, reward=0.0, verdict="no_code")
        request = {"problem": self.problem, "kernel_code": action.code, "timeout": timeout_s or 300.0}
        headers = {"Authorization": f"Bearer {os.environ['KBENCH_TOKEN']}"}
        while (told := httpx.post(f"{URL}/evaluate", json=request, headers=headers, timeout=None)).status_code == 429:
            time.sleep(float(told.headers["Retry-After"]))
        found = told.raise_for_status().json()
        said = {"reward": found["rewards"]["correct"], "verdict": found["verdict"], "speedup": found["speedup"]}
        return KernelObservation(problem=self.problem, done=True, message=found["error_message"], **said)


app = create_app(KernelEnvironment, KernelAction, KernelObservation, env_name="kbench")
