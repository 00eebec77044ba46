"""Tracebacks without the frames that are nobody's fault."""

import torch

from kbench.core import traces


def test_a_crash_names_the_solutions_lines_alone() -> None:
    log = f"""printed before
  File "{torch.__file__}", line 1 in a line that the solution printed itself
Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/home/me/my.py", line 3 in helper
  File "/home/me/my.py", line 10 in forward
  File "{torch.__file__}", line 1750 in _call_impl
  File "{traces.__file__}", line 251 in do_call
  File "<frozen runpy>", line 88 in _run_code

Extension modules: numpy.linalg._umath_linalg, torch._C (total: 28)"""
    assert traces.without_machinery(log.splitlines()) == [*log.splitlines()[:7], ""]


def test_a_log_without_a_crash_stays_as_it_is() -> None:
    lines = ["one", f'  File "{traces.__file__}", line 1 in f', "Extension modules: mine"]
    assert traces.without_machinery(lines) == lines
