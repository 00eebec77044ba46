"""How long something may take, from what is done."""

import pytest

from kbench.report.waiting import render_left


@pytest.mark.parametrize(
    ("done", "total", "elapsed_s", "text"),
    [
        (0, 10, 0.0, ""),
        (1, 3, 20.0, "about 40.0 s left"),
        (20, 177, 60.0, "about 7 min 51 s left"),
        (10, 10, 5.0, "about 0.0 s left"),
    ],
)
def test_left(done, total, elapsed_s, text):
    assert render_left(done, total, elapsed_s) == text
