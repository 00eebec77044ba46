"""How often the gate is wrong on a real device: real kernels, real processes, and the code that decides in production.

    python tests/calibration.py --device cuda --out /tmp/calibration       about 6 minutes on an H200
    python tests/calibration.py --device cuda --out ... --size short          one size at a time
    python tests/calibration.py --device cpu --out /tmp/calibration           the same on a CPU, to see that it works

Per size, `kbench run` measures five solutions side by side in the same session: two that do what the reference does,
and three that do 1, 2 and 5 % more of the same work in the same launch (rows of the input beyond those asked for; the
rows asked for are returned). Every process of a solution gives one estimate.

From these, verdicts are drawn: a baseline and a run take processes at random, each as many as the stop rule of
`kbench run` asks for, `gate.decide` judges with default settings, and takes fresh processes for a second look.
The processes are real and measured once; the verdicts are resampled from them and so not independent of each other,
and differences between sessions are not in them.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kbench.catalog import registry
from kbench.compare import measurements
from kbench.core.events import Judged, RunOptions
from kbench.core.model import Failed
from kbench.core.stats import needs_more_processes
from kbench.core.verdict import Measurement
from kbench.engine import run as running
from kbench.gate.rule import Contest, GatedCase, GateOutcome, decide
from kbench.storage.results import CaseKey, Run, read_run
from kbench.storage.settings import GateSettings, Settings

ROWS = 100
SPARE = 5
"""Rows of the input that the reference leaves alone: 1 % of its work each."""
PLANTED = (1, 2, 5)
SHAPES = {
    # 2 x copies at 4.3 TB/s read and written, group norm at 1.2 us per MB, as measured on an H200.
    "cuda": {"short": (535_000,), "medium": (1_610_000,), "long": (64, 512, 512)},
    "cpu": {"short": (1_000,), "medium": (16_000,), "long": (16, 64, 64)},
}
SOURCE = '''"""Doubles its first {rows} rows, or normalises them where they are images."""

import torch

shape = (8,)


class {name}(torch.nn.Module):
    def forward(self, x):
        wanted = x[:{taken}]
        done = torch.nn.functional.group_norm(wanted, 8) if wanted.dim() > 2 else 2 * wanted
        return done[:{rows}]


def get_inputs():
    return [torch.randn({rows} + {spare}, *shape)]


def get_init_inputs():
    return []
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What came of the verdicts of one size and one planted slow-down (percent)."""

    size: str
    planted: int
    verdicts: int
    failed: int
    answers: Mapping[str, int]
    truth: float
    """Mean change of the time over all processes, a share."""


def write_plugins(folder: Path, sizes: Sequence[str], device: str) -> None:
    """Write the problem and its five solutions."""
    cases = {size: {"shape": SHAPES[device][size]} for size in sizes}
    text = {"rows": ROWS, "spare": SPARE}
    problem = SOURCE.format(name="Model", taken=ROWS, **text)
    (folder / "known_work.py").write_text(f"{problem}\n\nCASES = {cases!r}\n")
    (folder / "known_work").mkdir()
    for name, more in solutions().items():
        (folder / "known_work" / f"{name}.py").write_text(SOURCE.format(name="ModelNew", taken=ROWS + more, **text))


def solutions() -> dict[str, int]:
    """Name the solutions, each with the percent of work that it does too much."""
    return {"same_a": 0, "same_b": 0, **{f"slower_{more}": more for more in PLANTED}}


def measure(folder: Path, size: str, device: str, processes: int, out: Path) -> Run:
    """Measure all solutions of one size in one run, and save it."""
    settings = Settings()
    problem = registry.find_problem(folder / "known_work.py", settings)
    entries = [registry.find_solution(problem, name, settings) for name in solutions()]
    options = RunOptions(
        device=device, cases=(size,), processes=processes, max_processes=processes, results_dir=out, name=size
    )
    for stale in out.glob(f"{size}.*csv"):
        stale.unlink()
    for event in running.run(problem, entries, options):
        if isinstance(event, Judged):
            if isinstance(event.outcome, Failed):
                raise SystemExit(f"{event.solution}, {size}: {event.outcome.status}: {event.outcome.reason}")
            sys.stderr.write(f"{size}: {event.solution}, {len(event.rows)} processes\n")
    return read_run(out / f"{size}.csv")


class Deck:
    """The processes of one or more measurements, dealt without repetition until none is left, then shuffled again."""

    def __init__(self, generator: np.random.Generator, measured: Sequence[Measurement]):
        self._generator = generator
        self._all = [ratio for one in measured for ratio in one.log_ratios]
        self._left: list[float] = []
        self._like = measured[0]

    def deal(self) -> float:
        """Give one process's estimate."""
        if not self._left:
            self._left = self._generator.permutation(self._all).tolist()
        return self._left.pop()

    def shuffle(self) -> None:
        """Put all processes back."""
        self._left = []

    def run(self, options: RunOptions) -> Measurement:
        """Deal a run, which takes processes until its interval is narrow enough."""
        estimates: list[float] = []
        while needs_more_processes(estimates, options.precision, options.processes, options.max_processes):
            estimates.append(self.deal())
        return replace(self._like, processes=tuple(range(len(estimates))), log_ratios=tuple(estimates))


def verdict(old: Deck, new: Deck) -> GatedCase:
    """Gate one run against one baseline, with fresh processes for every further look."""
    options = RunOptions()
    old.shuffle()
    new.shuffle()
    key = CaseKey("known_work", "solution", "case")
    contest = Contest(old=old.run(options), new=new.run(options))

    def remeasure(keys: tuple[CaseKey, ...], processes: int) -> Mapping[CaseKey, Contest]:
        again = replace(options, processes=processes, max_processes=processes)
        return {key: Contest(old=contest.old, new=new.run(again)) for key in keys}

    return decide({key: contest}, GateSettings(), remeasure=remeasure)[key]


def judge(run: Run, size: str, draws: int, seed: int = 1) -> list[Tally]:
    """Draw verdicts about each planted slow-down of one size; 0 is the false alarms."""
    found = {key[1]: measurement for key, measurement in measurements(run).items()}
    generator = np.random.default_rng(seed)
    same = [found["same_a"], found["same_b"]]
    base = float(np.mean([ratio for one in same for ratio in one.log_ratios]))
    tallies = []
    for planted, measured in ((0, same), *((more, [found[f"slower_{more}"]]) for more in PLANTED)):
        old = Deck(generator, same)
        # Without a change both sides are dealt from one deck, so that no process is on both.
        new = old if planted == 0 else Deck(generator, measured)
        cases = [verdict(old, new) for _ in range(draws)]
        ratios = [ratio for one in measured for ratio in one.log_ratios]
        tallies.append(
            Tally(
                size=size,
                planted=planted,
                verdicts=draws,
                failed=sum(case.outcome is GateOutcome.FAILED for case in cases),
                answers=Counter(case.verdict.status.value for case in cases),
                truth=float(np.expm1(np.mean(ratios) - base)),
            )
        )
    return tallies


def render(tallies: Sequence[Tally], runs: Sequence[Run]) -> str:
    """Write the table, and the false alarms, as Markdown."""
    times = {run.name: np.median([row.time_ns_median for row in run.rows if row.solution == "same_a"]) for run in runs}
    lines = ["| size | time | planted | measured change | failed | answers |\n|---|---|---|---|---|---|"]
    for one in tallies:
        answers = ", ".join(f"{count} {name}" for name, count in sorted(one.answers.items()))
        lines.append(
            f"| {one.size} | {times[one.size] / 1e3:.1f} us | {one.planted} % | {100 * one.truth:+.2f} % | "
            f"{one.failed} of {one.verdicts} | {answers} |"
        )
    null = [one for one in tallies if one.planted == 0]
    lines.append(f"\nFalse alarms: {sum(one.failed for one in null)} of {sum(one.verdicts for one in null)}.")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, draw the verdicts, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--size", action="append", choices=("short", "medium", "long"), help="repeatable; all")
    parser.add_argument("--processes", type=int, default=8, help="of each solution")
    parser.add_argument("--verdicts", type=int, default=100, help="of each size and slow-down")
    parser.add_argument("--judge-only", action="store_true", help="draw again from the runs in the folder")
    options = parser.parse_args()
    wanted = options.size or ["short", "medium", "long"]
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.judge_only:
        with tempfile.TemporaryDirectory(prefix="kbench-calibration-") as folder:
            write_plugins(Path(folder), wanted, options.device)
            for size in wanted:
                measure(Path(folder), size, options.device, options.processes, options.out)
    # Every size that lies there, so that sizes can be measured one by one.
    runs = [read_run(path) for name in SHAPES["cuda"] if (path := options.out / f"{name}.csv").is_file()]
    tallies = [tally for run in runs for tally in judge(run, run.name, options.verdicts)]
    sys.stdout.write(render(tallies, runs))


if __name__ == "__main__":
    main()
