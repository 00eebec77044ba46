"""verl: custom_reward_function.path=verl_reward.py, custom_reward_function.name=compute_score."""

import asyncio
import os
import re
from typing import Any

import httpx

URL = os.environ.get("KBENCH_URL", "http://127.0.0.1:8765")
TRIES = 3


async def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, *, policy: str = "correct", **_: Any
) -> dict[str, Any]:
    """Return what the last Python block of a response is worth; `ground_truth` names the problem.

    Raises RuntimeError where nobody knows: verl has no way to leave one sample out, and 0 would be a punishment.
    """
    blocks = re.findall(r"```(?:python)?\n(.*?)```", solution_str, re.S)
    if not blocks or not 10 <= len(blocks[-1]) <= 400_000:  # what the server takes
        return {"score": 0.0, "verdict": "no_code"}
    request = {"problem": ground_truth, "kernel_code": blocks[-1], "run_performance": policy != "correct"}
    headers = {"Authorization": f"Bearer {os.environ['KBENCH_TOKEN']}"}
    async with httpx.AsyncClient(base_url=URL, headers=headers, timeout=None) as client:
        for _ in range(TRIES):
            told = await client.post("/evaluate", json=request)
            while told.status_code == 429:  # the queue is full
                await asyncio.sleep(float(told.headers["Retry-After"]))
                told = await client.post("/evaluate", json=request)
            found = told.raise_for_status().json()
            reward = found["rewards"][policy]
            if reward is not None:
                return {"score": reward, "verdict": found["verdict"]}
            if not found["retryable"]:
                break
    raise RuntimeError(f"no reward for {ground_truth}: {found['error_code']}: {found['error_message']}")
