"""Flags that several commands have, each declared once, and how values are read: durations, shares and constants."""

import contextlib
import functools
import re
from typing import Any

import typer

from kbench.cli import completion
from kbench.cli.options import argument, option, switch
from kbench.storage.runfiles import LATEST

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|min|h)?")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, None: 1.0}


def parse_duration(text: str) -> float:
    """Read `90`, `90s`, `1.5m` or `2h` as seconds."""
    match = _DURATION.fullmatch(str(text).strip())
    if match is None or float(match[1]) <= 0:
        raise typer.BadParameter(f"{text!r} is not a duration; write `90s` or `5m`")
    return float(match[1]) * _SECONDS[match[2]]


def parse_share(text: str) -> float:
    """Read `0.5%` or `0.005` as a share between 0 and 1."""
    with contextlib.suppress(ValueError):
        share = float(str(text).strip().removesuffix("%")) / (100 if "%" in str(text) else 1)
        if 0 < share < 1:
            return share
    raise typer.BadParameter(f"{text!r} is not a share; write `0.5%` or `0.005`")


def given(**values: Any) -> dict[str, Any]:
    """Return the values of those flags that were given."""
    return {name: value for name, value in values.items() if value is not None}


seconds = functools.partial(option, parser=parse_duration)
share = functools.partial(option, parser=parse_share)
problem = functools.partial(argument, "PROBLEM", "Problem: a name or a path", autocompletion=completion.problems)
run = functools.partial(
    argument,
    "RUN",
    "Name of a run, a unique part of it, a path, or @latest~N",
    default=LATEST,
    autocompletion=completion.runs,
)
cases = functools.partial(option, "--case GLOB", text="Only cases whose name matches; repeatable")
set_ = functools.partial(option, "--set NAME=VALUE", "Override a constant of the problem; repeatable")
grid = functools.partial(option, "--grid NAME=V1,V2", "Judge a case for each value of a constant; repeatable")
device = functools.partial(option, "--device DEVICE", text="auto, cpu, cuda or cuda:INDEX")
devices = functools.partial(option, "--devices --device DEVICES", "all, cpu, or indices such as 0,1 (default all)")
lanes = functools.partial(option, "--lanes N", "Judges per device (default 4; 1 on a CPU)", min=1)
quick = functools.partial(switch, "--quick", "Measure in one process only")
verify_only = functools.partial(switch, "--verify-only", "Verify, and time nothing")
allow_tf32 = functools.partial(switch, "--allow-tf32", "Allow TF32 on both sides")
name = functools.partial(option, "--name NAME")
baseline = functools.partial(option, "--baseline NAME")
jobs = functools.partial(option, "--jobs N", min=1)
processes = functools.partial(option, "--processes N")
resume = functools.partial(option, "--resume RUN")
strict = functools.partial(switch, "--strict", "Exit 4 when a result is inconclusive")
folder = functools.partial(option, "--in DIR")
trusted = functools.partial(switch, "--trusted", "Trust the solution: run it with a lighter sandbox")
results = functools.partial(option, "--results DIR", "Results folder")
slower = functools.partial(share, "--slower SHARE", "Smallest slow-down that counts (default 0.5%)")
time = functools.partial(option, "--time", "Time to compare (default device)")
