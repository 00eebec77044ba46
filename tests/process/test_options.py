"""Options cross to the judge as they are, whatever they hold."""

import json
import math
from pathlib import Path

from kbench.core.events import RunOptions
from kbench.core.levels import Level
from kbench.process.options import decode_options, encode_options


def test_options_arrive_as_they_were_sent():
    options = RunOptions(
        device="cuda:1",
        cases=("small", "r*"),
        overrides={"shape": (2, 3), "scale": math.inf, "name": "x"},
        budget_s=2.5,
        call_timeout_s=3.0,
        level=Level.GENERAL,
        accept=("strides",),
        results_dir=Path("/elsewhere"),
    )
    for each in (RunOptions(), options):
        assert decode_options(json.loads(json.dumps(encode_options(each)))) == each
