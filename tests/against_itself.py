"""The reference against itself, over problem files: how far from 1 the speed-up of `eager` is, and if it is held.

    git clone https://github.com/ScalingIntelligence/KernelBench
    python tests/against_itself.py KernelBench/KernelBench/level1 KernelBench/KernelBench/level2 --lanes 2 \
        --out results/calibration/against_itself.csv

Each file is one `kbench run FILE eager --quick`, `--lanes` of them at a time, and a row as soon as it is finished;
`--every N` takes every N-th file. The summary counts those that ended as `passed`, those of them that are `held`, and
those of 20 us and more within 2 %. `--solo TABLE` compares with an earlier one of `--lanes 1`: whether kbench processes
that share a device say the same, and how much sooner.
"""

import argparse
import csv
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from one_run import ask, verdict

COLUMNS = (
    *("problem", "status", "attestation", "timer", "time_ns", "ref_time_ns", "attested_ns", "attested_half_width_ns"),
    *("wall_ns", "speedup", "flags", "reason", "elapsed_s"),
)
LONG_NS = 20_000
WITHIN = 0.02
BESIDE_WITHIN = 0.01
LIMIT_S = 120.0


def judge(path: Path, arguments: list[str]) -> dict[str, Any]:
    """Judge one file."""
    told, elapsed_s = ask([str(path), "eager", *arguments], LIMIT_S)
    found = verdict(told)
    return {
        **{name: found["row"].get(name, "") for name in COLUMNS},
        "problem": f"{path.parent.name}/{path.stem}",
        "status": found["status"],
        "time_ns": found["row"].get("time_ns_median", ""),
        "ref_time_ns": found["row"].get("ref_time_ns_median", ""),
        "reason": found["reason"],
        "elapsed_s": elapsed_s,
    }


def summary(found: list[dict[str, Any]]) -> str:
    """Count what the table is to show."""
    passed = [row for row in found if row["status"] == "passed"]
    held = [row for row in passed if row["attestation"] == "held"]
    long = [row for row in passed if row["speedup"] and float(row["time_ns"]) >= LONG_NS]
    near = [row for row in long if abs(float(row["speedup"]) - 1) <= WITHIN]
    return (
        f"{len(found)} files: {len(passed)} passed, {len(held)} of these held; of {len(long)} that take 20 us and more "
        f"{len(near)} within 2 % of 1; {sum(row['elapsed_s'] for row in found):.0f} s in all lanes together"
    )


def compared(found: list[dict[str, Any]], solo: list[dict[str, Any]], elapsed_s: float) -> str:
    """Say how the verdicts beside others differ from those alone, and how long both took."""
    alone = {row["problem"]: row for row in solo}
    both = [(row, alone[row["problem"]]) for row in found if row["problem"] in alone]
    other = [row["problem"] for row, before in both if row["status"] != before["status"]]
    timed = [(row, before) for row, before in both if row["speedup"] and before["speedup"]]
    moved = [abs(float(row["speedup"]) / float(before["speedup"]) - 1) for row, before in timed]
    near = sum(change <= BESIDE_WITHIN for change in moved)
    before_s = sum(float(before["elapsed_s"]) for _, before in both)
    return (
        f"of {len(both)} files {len(both) - len(other)} end as alone{''.join(f', not {name}' for name in other)}; "
        f"{near} of {len(moved)} speed-ups within 1 % of the one alone, {max(moved, default=0.0):.1%} at most; "
        f"{elapsed_s:.0f} s in place of {before_s:.0f} s one after the other"
    )


def main() -> None:
    """Judge every file of the folders and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--until", type=float, default=math.inf, help="seconds after which no file is begun")
    parser.add_argument("--solo", type=Path, help="a table of the same files, one at a time")
    parser.add_argument("--out", type=Path, required=True)
    given, rest = parser.parse_known_args()
    began = time.monotonic()
    paths = [path for folder in given.folders for path in sorted(folder.glob("*.py"))][:: given.every]
    found: list[dict[str, Any]] = []
    with given.out.open("w", newline="") as file:
        writer, lock = csv.DictWriter(file, COLUMNS), threading.Lock()
        writer.writeheader()

        def one(path: Path) -> None:
            if time.monotonic() > began + given.until:
                return
            row = judge(path, rest)
            with lock:  # each as it is finished: whoever ends this keeps what there is
                writer.writerow(row)
                file.flush()
                found.append(row)

        with ThreadPoolExecutor(given.lanes) as lanes:
            list(lanes.map(one, paths))
    print(summary(found))  # noqa: T201 - what the script is for
    if given.solo is not None:
        with given.solo.open(newline="") as file:
            print(compared(found, list(csv.DictReader(file)), time.monotonic() - began))  # noqa: T201


if __name__ == "__main__":
    main()
