"""Flags that several commands have, each declared once."""

import functools

from kbench.cli import completion
from kbench.cli.flag_values import parse_duration, parse_share
from kbench.cli.options import argument, option, switch
from kbench.storage.runfiles import LATEST

seconds = functools.partial(option, parser=parse_duration)
share = functools.partial(option, parser=parse_share)
problem = functools.partial(argument, "PROBLEM", "Problem: a name or a path", autocompletion=completion.problems)
run = functools.partial(
    argument,
    "RUN",
    "Name of a run, its unique beginning or ending, a path, or @latest~N",
    default=LATEST,
    autocompletion=completion.runs,
)
cases = functools.partial(option, "--case GLOB", "Only cases whose name matches; repeatable")
set_ = functools.partial(option, "--set NAME=VALUE", "Override a constant of the problem; repeatable")
device = functools.partial(option, "--device DEVICE", "auto, cpu, cuda or cuda:INDEX")
trusted = functools.partial(switch, "--trusted", "Trust the solution: run it with a lighter sandbox")
results = functools.partial(option, "--results DIR", "Results folder")
slower = functools.partial(share, "--slower SHARE", "Smallest slow-down that counts (default 0.5%)")
time = functools.partial(option, "--time", "Time to compare (default device)")
