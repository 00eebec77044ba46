"""verifiers: a taskset with one task for each problem of a server; its reward is kbench's verdict."""

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import verifiers.v1 as vf

URL = os.environ.get("KBENCH_URL", "http://127.0.0.1:8765")
PROMPT = "Write `ModelNew`, a faster PyTorch module with the same results, in one Python block.\n\n```python\n{}```"


class KernelConfig(vf.TasksetConfig):
    """Files of problems; the server must have problems of the same names."""

    problems: list[str] = []


class KernelData(vf.TaskData):
    problem: str


class KernelTask(vf.Task[KernelData, vf.State, vf.TaskConfig]):
    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        """Return 1 or 0. Raises where nobody knows: an episode with an error is no sample to train on."""
        blocks = re.findall(r"```(?:python)?\n(.*?)```", trace.last_reply, re.S)
        if not blocks or not 10 <= len(blocks[-1]) <= 400_000:  # what the server takes
            return 0.0
        request = {"problem": self.data.problem, "kernel_code": blocks[-1], "run_performance": False}
        headers = {"Authorization": f"Bearer {os.environ['KBENCH_TOKEN']}"}
        async with httpx.AsyncClient(base_url=URL, headers=headers, timeout=None) as client:
            while (told := await client.post("/evaluate", json=request)).status_code == 429:
                await asyncio.sleep(float(told.headers["Retry-After"]))
        found = told.raise_for_status().json()
        trace.info["kbench"] = {name: found[name] for name in ("verdict", "error_message", "metadata")}
        if found["rewards"]["correct"] is None:
            raise RuntimeError(f"no verdict: {found['error_code']}: {found['error_message']}")
        return float(found["rewards"]["correct"])


class KernelTaskset(vf.Taskset[KernelTask, KernelConfig]):
    def load(self) -> Iterator[KernelTask]:
        for path in self.config.problems:
            name, prompt = Path(path).stem, PROMPT.format(Path(path).read_text())
            yield KernelTask(KernelData(name=name, problem=name, prompt=prompt), self.config.task)
