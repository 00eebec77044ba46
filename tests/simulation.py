"""What the gate does under noise of known size: false alarms and power.

Times are drawn; everything after that is what runs in production: samples become pairs, pairs process
estimates, a run stops by its fixed-width rule, and `gate.decide` judges, looks again and concludes.

    python tests/simulation.py               the tables of docs/statistics.md (about 20 minutes on one core)
    python tests/simulation.py --suites 50   the same, rougher
"""

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from records import make_row

from kbench.compare import process_differences
from kbench.core.model import Sample, Status, Timing
from kbench.core.stats import needs_more_processes, process_estimate, ratio_interval
from kbench.core.verdict import Measurement
from kbench.gate.rule import Contest, GatedCase, GateOutcome, decide
from kbench.storage.results import CaseKey
from kbench.storage.settings import GateSettings

CASES_PER_SUITE = 50
ROW = make_row()
POWER_AT = (0.005, 0.01, 0.02, 0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Noise of log times. The three sets are assumptions; a calibration on a device replaces them."""

    within: float
    drift: float
    """Sd of the AR(1) clock drift."""
    drift_samples: float
    """Its time constant."""
    throttle_rate: float
    throttle_size: float
    throttle_samples: float
    spike_share: float
    spike_size: float
    process: float
    """Sd of what a process adds to its ratio."""
    session: float
    """Sd of a session's clock offset."""
    sensitivity: float = 1.0
    """How much of drift, throttling and session the candidate feels; the reference feels all."""


QUIET = Noise(
    within=0.002,
    drift=0.001,
    drift_samples=200,
    throttle_rate=0.0,
    throttle_size=0.0,
    throttle_samples=1,
    spike_share=0.003,
    spike_size=0.05,
    process=0.0005,
    session=0.002,
)
TYPICAL = Noise(
    within=0.004,
    drift=0.004,
    drift_samples=200,
    throttle_rate=5e-4,
    throttle_size=0.03,
    throttle_samples=100,
    spike_share=0.01,
    spike_size=0.10,
    process=0.0015,
    session=0.01,
)
NOISY = Noise(
    within=0.01,
    drift=0.012,
    drift_samples=300,
    throttle_rate=2e-3,
    throttle_size=0.08,
    throttle_samples=150,
    spike_share=0.03,
    spike_size=0.30,
    process=0.004,
    session=0.02,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How a run samples: the options of `kbench run`."""

    processes: int = 3
    max_processes: int = 10
    pairs: int = 30
    precision: float = 0.003


@dataclass(slots=True, kw_only=True)
class Tally:
    """What came of many cases."""

    cases: int = 0
    failed: int = 0
    unclear: int = 0
    red_suites: int = 0
    suites: int = 0
    processes: list[int] = field(default_factory=list)


def clock(rng: np.random.Generator, noise: Noise, count: int) -> NDArray[np.float64]:
    """Slow-down of each sample by clock drift and throttling, in log units."""
    keep = np.exp(-1 / noise.drift_samples)
    shocks = rng.normal(0, noise.drift * np.sqrt(1 - keep**2), count)
    start = rng.normal(0, noise.drift)
    path = np.array([*accumulate(shocks, lambda before, shock: keep * before + shock, initial=start)][1:])
    for begin in np.flatnonzero(rng.random(count) < noise.throttle_rate):
        length = 1 + int(rng.exponential(noise.throttle_samples))
        path[begin : begin + length] += rng.uniform(0, noise.throttle_size)
    return path


def time_process(
    rng: np.random.Generator,
    noise: Noise,
    session: float,
    process: int,
    pairs: int,
    arms: Mapping[str, float],
) -> Timing:
    """Draw the samples of one process: blocks of the arms, forth and back, with a random start."""
    names = list(arms)
    shift = {name: change + rng.normal(0, noise.process) for name, change in arms.items()}
    shift["reference"] = 0.0
    count = pairs * len(names)
    slow = clock(rng, noise, count) + session
    jitter = rng.normal(0, noise.within, count)
    jitter += (rng.random(count) < noise.spike_share) * rng.exponential(noise.spike_size, count)
    forward = rng.random(pairs // 2) < 0.5
    times = {}
    for arm in names:
        felt = slow * (1.0 if arm == "reference" else noise.sensitivity)
        times[arm] = np.rint(1e7 * np.exp(shift[arm] + felt + jitter)).astype(int).tolist()
    samples = []
    for block in range(pairs // 2):
        order = names if forward[block] else names[::-1]
        for arm in order + order[::-1]:
            n = len(samples)
            samples.append(
                Sample(
                    process=process,
                    block=block,
                    sequence=n,
                    arm=arm,
                    t_event_ns=times[arm][n],
                    t_host_submit_ns=0,
                    t_wall_ns=0,
                )
            )
    return Timing(samples=tuple(samples), timer="events", l2="flushed")


def run_case(rng: np.random.Generator, noise: Noise, design: Design, change: float, session: float) -> Measurement:
    """Measure one case as a run does, with fresh processes until the interval is narrow enough."""
    estimates: list[float] = []
    while needs_more_processes(estimates, design.precision, design.processes, design.max_processes):
        arms = {"reference": 0.0, "candidate": change}
        timing = time_process(rng, noise, session, len(estimates), design.pairs, arms)
        estimates.append(process_estimate(timing))
    return measurement(estimates)


def measurement(estimates: list[float]) -> Measurement:
    """Wrap estimates as what the gate reads from a run that passed."""
    processes = tuple(range(len(estimates)))
    return Measurement(status=Status.PASSED, row=ROW, processes=processes, log_ratios=tuple(estimates))


def gate_suite(rng: np.random.Generator, noise: Noise, design: Design, changes: list[float]) -> list[GatedCase]:
    """Measure a baseline in one session and a run in another, and gate every case."""
    before, now = rng.normal(0, noise.session, 2)
    keys = {CaseKey("p", "s", str(n)): float(np.log1p(change)) for n, change in enumerate(changes)}
    contests = {
        key: Contest(old=run_case(rng, noise, design, 0.0, before), new=run_case(rng, noise, design, change, now))
        for key, change in keys.items()
    }

    def remeasure(flagged: tuple[CaseKey, ...], processes: int) -> Mapping[CaseKey, Contest]:
        again = replace(design, processes=processes, max_processes=processes)
        return {key: Contest(old=contests[key].old, new=run_case(rng, noise, again, keys[key], now)) for key in flagged}

    return list(decide(contests, GateSettings(), remeasure=remeasure).values())


def gate_three_arms(rng: np.random.Generator, noise: Noise, design: Design, changes: list[float]) -> list[GatedCase]:
    """Measure old and new in the same processes, each next to the reference, and gate every case."""
    session = rng.normal(0, noise.session)

    def contest(change: float, processes: int) -> Contest:
        fixed = replace(design, processes=processes, max_processes=processes)
        old, new = (run_case(rng, noise, fixed, moved, session) for moved in (0.0, change))
        return Contest(old=old, new=new, differences=process_differences(old, new) or None)

    keys = {CaseKey("p", "s", str(n)): float(np.log1p(change)) for n, change in enumerate(changes)}
    contests = {key: contest(change, design.processes) for key, change in keys.items()}

    def remeasure(flagged: tuple[CaseKey, ...], processes: int) -> Mapping[CaseKey, Contest]:
        return {key: contest(keys[key], processes) for key in flagged}

    return list(decide(contests, GateSettings(), remeasure=remeasure).values())


def tally(suites: list[list[GatedCase]]) -> Tally:
    """Count failures and unclear cases, by case and by suite."""
    result = Tally()
    for cases in suites:
        failed = [case for case in cases if case.outcome is GateOutcome.FAILED]
        result.suites += 1
        result.cases += len(cases)
        result.failed += len(failed)
        result.unclear += sum(case.verdict.status == "unclear" for case in cases)
        result.red_suites += bool(failed)
        result.processes += [case.looks[0].processes for case in cases]
    return result


def upper_bound(hits: int, trials: int) -> float:
    """One-sided exact 95 % upper bound of a rate."""
    from scipy.stats import beta

    return 1.0 if hits == trials else float(beta.ppf(0.95, hits + 1, trials - hits))


def coverage(rng: np.random.Generator, spread: float, design: Design, runs: int) -> tuple[float, float]:
    """Share of runs whose 95 % interval holds the truth, and how many processes they took."""
    hits, processes = 0, 0
    for _ in range(runs):
        estimates: list[float] = []
        while needs_more_processes(estimates, design.precision, design.processes, design.max_processes):
            estimates.append(rng.normal(0, spread))
        interval = ratio_interval(estimates)
        hits += interval.low <= 0 <= interval.high
        processes += len(estimates)
    return hits / runs, processes / runs


def print_coverage(seed: int) -> None:
    """Print how honest the interval of a run is that stops by its width."""
    sys.stdout.write("\n| sd between processes | from | until ± | coverage | processes |\n|---|---|---|---|---|\n")
    rng = np.random.default_rng([seed, 99])
    for spread in (0.0006, 0.002, 0.003, 0.005):
        for design in (Design(precision=0.005), Design(), Design(processes=5)):
            share, processes = coverage(rng, spread, design, 4000)
            sys.stdout.write(
                f"| {100 * spread:.2f} % | {design.processes} | {100 * design.precision:.1f} % | "
                f"{100 * share:.1f} % | {processes:.1f} |\n"
            )


def print_naive(seed: int, trials: int = 1000) -> None:
    """Print how often rules in common use call a build slower, from 150 samples of one process each."""
    from scipy.stats import mannwhitneyu, ttest_ind

    rules = {
        "mean over +2 %": lambda a, b: b.mean() > 1.02 * a.mean(),
        "minimum over +2 %": lambda a, b: b.min() > 1.02 * a.min(),
        "Welch, p < 0.05": lambda a, b: b.mean() > a.mean() and ttest_ind(a, b, equal_var=False).pvalue < 0.05,
        "Mann-Whitney, p < 0.002": lambda a, b: np.median(b) > np.median(a) and mannwhitneyu(a, b).pvalue < 0.002,
    }
    sys.stdout.write("\n| one process after the other | quiet | typical | noisy |\n|---|---|---|---|\n")
    cells: dict[str, list[str]] = {name: [] for name in rules}
    for noise in (QUIET, TYPICAL, NOISY):
        rng = np.random.default_rng([seed, 98])
        called = {(name, change): 0 for name in rules for change in (0.0, 0.02)}
        for change in (0.0, 0.02):
            for _ in range(trials):
                slow = clock(rng, noise, 300)
                jitter = rng.normal(0, noise.within, 300)
                jitter += (rng.random(300) < noise.spike_share) * rng.exponential(noise.spike_size, 300)
                times = np.exp(slow + jitter)
                times[150:] *= (1 + change) * np.exp(rng.normal(0, noise.process))
                for name, rule in rules.items():
                    called[name, change] += bool(rule(times[:150], times[150:]))
        for name in rules:
            cells[name].append(" / ".join(f"{100 * called[name, c] / trials:.1f} %" for c in (0.0, 0.02)))
    for name, found in cells.items():
        sys.stdout.write(f"| {name} | {' | '.join(found)} |\n")


def main() -> None:
    """Print the tables of docs/statistics.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=int, default=400, help=f"of {CASES_PER_SUITE} cases each")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wide = Design()
    scenarios = {
        0: ("quiet", QUIET, wide, gate_suite),
        1: ("typical", TYPICAL, wide, gate_suite),
        4: ("typical, candidate feels 0.8 of the clock", replace(TYPICAL, sensitivity=0.8), wide, gate_suite),
        5: ("noisy", NOISY, wide, gate_suite),
        7: ("typical, three arms, 5 processes", TYPICAL, Design(processes=5), gate_three_arms),
    }  # by the number that seeds its draws
    say = sys.stdout.write
    head = ["noise and design", "processes", "red suites at 0 %", "95 % bound", "unclear at 0 %"]
    head += [f"failed at +{100 * change:g} %" for change in POWER_AT]
    say(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    for number, (name, noise, design, gated) in scenarios.items():
        began = time.monotonic()
        rng = np.random.default_rng([options.seed, number])
        null = tally([gated(rng, noise, design, [0.0] * CASES_PER_SUITE) for _ in range(options.suites)])
        powers = []
        for change in POWER_AT:
            draws = max(options.suites // 10, 2)
            found = tally([gated(rng, noise, design, [change] * CASES_PER_SUITE) for _ in range(draws)])
            powers.append(f"{100 * found.failed / found.cases:.2f} %")
        cells = [
            name,
            f"{np.mean(null.processes):.1f}",
            f"{null.red_suites} of {null.suites}",
            f"≤ {100 * upper_bound(null.red_suites, null.suites):.1f} %",
            f"{100 * null.unclear / null.cases:.2f} %",
            *powers,
        ]
        say(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()
        sys.stderr.write(f"{name}: {time.monotonic() - began:.0f} s\n")
    print_coverage(options.seed)
    print_naive(options.seed)


if __name__ == "__main__":
    main()
