"""The sentence at the head of a sweep's page."""

from types import SimpleNamespace

import pytest

from kbench.engine.summary import Score, mean_speedup
from kbench.report.html.sweep import headline

TRIVIAL = "a task that wrong answers pass too"
MEAN = "the geometric mean is 0.500× the reference's speed (95 % interval 0.500 … 0.500)"


@pytest.mark.parametrize(
    ("speedups", "trivial", "sentence"),
    [
        ((), 0, "0 of 4 pass."),
        ((0.9768,), 0, "1 of 4 pass. The one that was timed has 0.98× the reference's speed."),
        ((0.5, 0.5, 0.5), 1, f"3 of 4 pass, 1 of them {TRIVIAL}. Over the 3 others that were timed {MEAN}."),
    ],
)
def test_the_headline_has_the_digits_that_its_solutions_support(speedups, trivial, sentence):
    lines = [SimpleNamespace(passed=number < len(speedups)) for number in range(4)]
    mean = mean_speedup([Score(passed=True, speedup=value) for value in speedups])
    assert headline(SimpleNamespace(lines=lines, trivial=trivial, mean=mean)) == sentence
