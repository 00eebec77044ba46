"""Verdicts an hour over many candidates of small problems: kbench and KernelBench's own evaluator on one machine.

    git clone https://github.com/ScalingIntelligence/KernelBench
    python tests/throughput.py --kernelbench KernelBench --out results/throughput/h200.csv --until 100
    python tests/throughput.py --device cpu --sources 2 --out /tmp/cpu.csv       kbench alone: KernelBench needs a GPU

200 sources for each of 5 problems. Half are faulty: wrong values, a wrong shape, an exception, no Python, an end of the
process. Any ten in a row are half faulty, any fifty have each kind of each problem once.

`kbench` is one warm `Judge` with two candidates in flight for each lane. It verifies and times them in one process
each, as `--quick` does. `kernelbench` is `eval_kernel_against_ref` in a new process for each candidate, one at a time,
with the settings of KernelBench's `scripts/eval_from_generations.py`: 5 trials, 100 timed calls.

Each verdict is appended to `OUT.verdicts.csv` at once; `--out` has the figures. A latency is from the question to the
answer, with the wait for a lane. A rate is of all verdicts, from the first question to the last answer. `--until
SECONDS` begins no candidate after that time; each evaluator gets half of it.
"""

import argparse
import contextlib
import functools
import json
import math
import os
import platform
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas
import tiny_corpus

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kbench.api.judge import Judge
from kbench.devices import nvml, selection
from kbench.storage.versions import git_state

ROOT = Path(__file__).resolve().parent.parent
CALLS = {
    "relu": "torch.relu(x - 0.5)",
    "softmax": "torch.softmax(x, dim=-1)",
    "gelu": "torch.nn.functional.gelu(x)",
    "normalise": "(x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)",
    "logsumexp": "torch.logsumexp(x, dim=-1, keepdim=True) + x",
}
BODIES = {
    "right": "return {call}  # {number}",
    "wrong values": "return {call} + 0.1{number:03}",
    "right: named": "out = {call}  # {number}\n        return out",
    "raises": "raise ValueError('{number}')",
    "right: contiguous": "return ({call}).contiguous()  # {number}",
    "wrong shape": "return ({call})[:, :-1]  # {number}",
    "right: adds nothing": "return torch.add({call}, 0.0)  # {number}",
    "no Python": "return ({call}  # {number}",
    "right: viewed": "return ({call}).view(x.shape)  # {number}",
    "exits": "os._exit(1)  # {number}",
}
"""Every second one is faulty."""
KERNELBENCH = """import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from kernelbench.eval import eval_kernel_against_ref
print("ready", file=answers, flush=True)
for line in sys.stdin:
    try:
        found = eval_kernel_against_ref(
            *json.loads(line), num_correct_trials=5, num_perf_trials=100, measure_performance=True, device=0
        )
        named = "passed" if found and found.correctness else "incorrect" if found and found.compiled else "not_compiled"
        status = "none" if found is None else named
    except Exception as error:
        status = " ".join(f"evaluator_raised {error!r}".split())[:80]
    print(status, file=answers, flush=True)
"""
"""A process that answers each line, a problem and a solution, with how KernelBench judges it."""
LIMIT_S = 180.0
"""Of one candidate, for KernelBench: the default of its script."""
MACHINE = ("gpu", "processors", "driver", "python", "torch", "kbench", "kernelbench")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A solution, and the problem that it is for."""

    number: int
    name: str
    kind: str
    problem: str
    solution: str


Evaluate = Callable[[Candidate], tuple[str, str]]
"""Judges a candidate; returns `passed`, `refused` or `none`, and the status in the evaluator's own words."""


def candidates(sources: int, n: int) -> list[Candidate]:
    """Return the sources in turns, the given number for each problem."""
    kinds = list(BODIES)
    found = []
    for number in range(sources):
        for place, (name, call) in enumerate(CALLS.items()):
            kind = kinds[(number + place) % len(kinds)]
            solution = tiny_corpus.solution(BODIES[kind].format(call=call, number=number), head="import os\n")
            problem = tiny_corpus.problem(call, given="torch.rand(64, n)", constants=f"n = {n}")
            found.append(Candidate(number=len(found), name=name, kind=kind, problem=problem, solution=solution))
    return found


class KernelBench:
    """KernelBench's evaluator in a new process for each candidate."""

    def __init__(self, repository: Path, log: Path, limit_s: float = LIMIT_S):
        self._log = log
        self._limit_s = limit_s
        path = os.pathsep.join(filter(None, [str(repository.absolute() / "src"), os.environ.get("PYTHONPATH")]))
        local = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # else its import asks a server
        self._environment = {**os.environ, **local, "PYTHONPATH": path}

    def __call__(self, candidate: Candidate) -> tuple[str, str]:
        """Judge one candidate. Ends the script where KernelBench does not start."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command = [sys.executable, "-c", KERNELBENCH]
        with self._log.open("wb") as log:
            process = subprocess.Popen(command, bufsize=0, env=self._environment, stderr=log, **pipes)
        with process:
            try:
                if self._hear(process) != "ready":
                    raise SystemExit(f"KernelBench does not start:\n{self._log.read_text(errors='replace')[-2000:]}")
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(json.dumps([candidate.problem, candidate.solution]).encode() + b"\n")
                status = self._hear(process)
            finally:
                process.kill()
        return status if status in {"passed", "none"} else "refused", status

    def _hear(self, process: subprocess.Popen[bytes]) -> str:
        """Return the next line, `ended` or `timeout`."""
        if not select.select([process.stdout], [], [], self._limit_s)[0]:
            return "timeout"
        return process.stdout.readline().decode().strip() or "ended"


def by_kbench(judge: Judge, candidate: Candidate) -> tuple[str, str]:
    """Judge one candidate with kbench."""
    (found,) = judge.evaluate(candidate.problem, candidate.solution)
    verdict = "passed" if found.passed else "refused" if found.is_verdict else "none"
    return verdict, found.status.value


def measure(
    chosen: Sequence[Candidate], evaluate: Evaluate, at_a_time: int, until_s: float, path: Path, same: Row
) -> None:
    """Judge candidates, a limited number at a time, and start none after `until_s` seconds; each verdict is on the disk
    at once."""
    start, lock = time.monotonic(), threading.Lock()

    def one(candidate: Candidate) -> None:
        began = time.monotonic()
        if began - start >= until_s:
            return
        verdict, status = evaluate(candidate)
        ended = time.monotonic()
        row = {
            "evaluator": same["evaluator"],
            "candidate": candidate.number,
            "problem": candidate.name,
            "kind": candidate.kind,
            "verdict": verdict,
            "status": status,
            "latency_s": round(ended - began, 4),
            "ended_s": round(ended - start, 4),
            **same,
        }
        with lock:
            pandas.DataFrame([row]).to_csv(path, mode="a", header=not path.exists(), index=False)

    with ThreadPoolExecutor(at_a_time) as threads:
        list(threads.map(one, chosen))


def figures(verdicts: pandas.DataFrame) -> pandas.DataFrame:
    """Return a row for each evaluator."""
    groups = dict(iter(verdicts.groupby("evaluator", sort=False)))
    by_kbench = groups["kbench"].set_index("candidate").verdict
    rates = {name: 3600 * (some.verdict != "none").sum() / some.ended_s.max() for name, some in groups.items()}
    return pandas.DataFrame([figures_of(name, some, by_kbench, rates) for name, some in groups.items()])


def figures_of(name: str, some: pandas.DataFrame, by_kbench: pandas.Series, rates: dict[str, float]) -> Row:
    """Return the figures of one evaluator, and where its verdicts differ from kbench's."""
    right, verdict = some.kind.str.startswith("right"), some.verdict
    both = some.assign(kbench_says=some.candidate.map(by_kbench)).dropna(subset="kbench_says")
    differing = both[both.verdict != both.kbench_says]
    cases = (differing.kind + ": kbench " + differing.kbench_says + f", {name} " + differing.verdict).value_counts()
    return {
        "evaluator": name,
        "candidates": len(some),
        "seconds": round(some.ended_s.max(), 1),
        "verdicts_per_hour": round(rates[name]),
        "times_kernelbench": round(rates[name] / rates["kernelbench"], 2) if "kernelbench" in rates else "",
        "first_s": round(some.ended_s.min(), 2),
        "p50_s": round(some.latency_s.quantile(0.5), 3),
        "p95_s": round(some.latency_s.quantile(0.95), 3),
        "passed": (verdict == "passed").sum(),
        "refused": (verdict == "refused").sum(),
        "no_verdict": (verdict == "none").sum(),
        "right_refused": (right & (verdict == "refused")).sum(),
        "faulty_passed": (~right & (verdict == "passed")).sum(),
        "compared": len(both),
        "differ": len(differing),
        "differing": "; ".join(f"{case} ({number})" for case, number in cases.sort_index().items()),
        **some[[*MACHINE]].iloc[0].to_dict(),
    }


def machine_of(device: selection.DeviceChoice, kbench: str, kernelbench: str) -> Row:
    """Return what the figures depend on beside the code that they are of."""
    driver = nvml.driver_version() if device.kind == "cuda" else ""
    of_device = (device.name, len(os.sched_getaffinity(0)), driver)
    return dict(
        zip(MACHINE, (*of_device, platform.python_version(), version("torch"), kbench, kernelbench), strict=True)
    )


def main() -> None:
    """Have both evaluators judge what they have the time for, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of the figures; the verdicts are beside it")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sources", type=int, default=200, help="for each of the five problems")
    parser.add_argument("--size", type=int, default=4096, help="length of a row")
    parser.add_argument("--lanes", type=int, default=None, help="kbench's judges at a time")
    parser.add_argument("--kernelbench", type=Path, help="checkout of KernelBench; without it, kbench alone")
    parser.add_argument("--until", type=float, default=math.inf, help="seconds after which no candidate is begun")
    given = parser.parse_args()
    chosen, device = candidates(given.sources, given.size), selection.choose(given.device)
    path = given.out.with_suffix(".verdicts.csv")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    machine = machine_of(device, git_state(ROOT)[0], git_state(given.kernelbench)[0] if given.kernelbench else "")
    share_s = given.until / (1 if given.kernelbench is None else 2)
    with Judge(device=given.device, lanes=given.lanes, processes=1, max_processes=1) as judge:
        evaluate = functools.partial(by_kbench, judge)
        measure(chosen, evaluate, 2 * judge.lanes, share_s, path, {"evaluator": "kbench", **machine})
    if given.kernelbench is not None:
        with tempfile.TemporaryDirectory(prefix="kbench-throughput-") as folder:
            evaluator = KernelBench(given.kernelbench, Path(folder, "kernelbench.log"))
            measure(chosen, evaluator, 1, share_s, path, {"evaluator": "kernelbench", **machine})
    found = figures(pandas.read_csv(path, keep_default_na=False))
    found.to_csv(given.out, index=False)
    for one in found.itertuples():
        sys.stdout.write(f"{one.evaluator}: {one.verdicts_per_hour} verdicts an hour\n")


if __name__ == "__main__":
    main()
