"""Text on a terminal: sentences are broken between words; commands, numbers with units, tables and logs are not."""

import pytest

from kbench.report.prose import broken, fit

COMMAND = "`kbench run hard_swish.py solutions/hard_swish/fused.py --case small --processes 12`"

CASES = {
    "short": ("hint: Multiply by it.", 60, ["hint: Multiply by it."]),
    "labelled": (
        "hint: Read the parameters in each call, or recompute what depends on them.",
        44,
        ["hint: Read the parameters in each call, or", "  recompute what depends on them."],
    ),
    "sentence": (
        "fused is right: 2.5× the reference's speed, 97 % of what this H200 can do.",
        46,
        ["fused is right: 2.5× the reference's speed,", "97 % of what this H200 can do."],
    ),
    "number with its unit": (
        "timing: after some time of measuring, it was ± 26 % and more time helps",
        48,
        ["timing: after some time of measuring, it was", "  ± 26 % and more time helps"],
    ),
    "command longer than the line": (
        f"hint: reproduce with {COMMAND} or so",
        60,
        ["hint: reproduce with", f"  {COMMAND}", "  or so"],
    ),
    "command that fits a line": (
        "hint: if the interval is too wide, `kbench report @latest --samples` shows all",
        50,
        ["hint: if the interval is too wide,", "  `kbench report @latest --samples` shows all"],
    ),
    "cells before a sentence": (
        "warn  gpu    none found: problems run on the processor, not checked   fix: install a driver for it soon",
        60,
        [
            "warn  gpu    none found: problems run on the processor, not",
            "    checked   fix: install a driver for it soon",
        ],
    ),
    "little room beside the cells": (
        "unwritten_output  solution  default  writes nothing of the output, not one element",
        60,
        ["unwritten_output  solution  default  writes nothing of the", "    output, not one element"],
    ),
    "a short cell behind the sentence": (
        "2  small  RAISED  RuntimeError: the kernel does not take this layout  3.2 s",
        60,
        ["2  small  RAISED  RuntimeError: the kernel does not take", "    this layout  3.2 s"],
    ),
    "cells alone": (
        "  fused  conv2d_group_norm_scale_max_pool_clamp  passed  general  1,317.5  1.74×",
        66,
        ["  fused  conv2d_group_norm_scale_max_pool_clamp  passed  general", "      1,317.5  1.74×"],
    ),
    "seconds": (
        "slowest: hard_swish on the case small, 18.9 s, and another one",
        44,
        ["slowest: hard_swish on the case small,", "  18.9 s, and another one"],
    ),
    "log": ("  | " + "error: expected a semicolon before the brace " * 2, 60, None),
    "narrow terminal": ("hint: Read the parameters in each call, all of them.", 30, None),
    "path": ("saved results/" + "a" * 70 + ".csv", 60, ["saved", "results/" + "a" * 70 + ".csv"]),
}


@pytest.mark.parametrize("name", CASES)
def test_lines_are_broken(name):
    text, width, lines = CASES[name]
    assert fit(text, width).split("\n") == (lines or [text])


def test_each_line_is_fitted_by_itself():
    assert fit("case small: features=256\n\nhint: Multiply.", 60) == "case small: features=256\n\nhint: Multiply."


def test_broken_keeps_blanks_of_the_text():
    assert broken("a  b", 40, start="  ") == ["  a  b"]
