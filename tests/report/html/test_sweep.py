"""The sentence at the head of a sweep's page."""

import pytest

from kbench.core.model import Status
from kbench.report.html.run import sweep_headline
from kbench.report.summary import CaseSummary, RunSummary

TRIVIAL = "a task that wrong answers pass too"
MEAN = "geometric mean 0.500× (0.500 … 0.500) of 3"


def line(number, speedup, flags=()):
    status = Status.WRONG_VALUE if speedup is None else Status.PASSED
    return CaseSummary(solution=f"s{number}", case="", status=status, speedup=speedup, flags=flags)


@pytest.mark.parametrize(
    ("speedups", "trivial", "sentence"),
    [
        ((), 0, "0 of 4 pass."),
        ((0.9768,), 0, "1 of 4 pass. Speed-up: geometric mean 0.98× of 1."),
        (
            (0.5, 0.5, 0.5),
            1,
            f"4 of 4 pass, 1 of them {TRIVIAL}. Speed-up: geometric mean 0.500× (0.500 … 0.500) of 3.",
        ),
    ],
)
def test_the_headline_has_the_digits_that_its_solutions_support(speedups, trivial, sentence):
    lines = [line(number, speedup) for number, speedup in enumerate(speedups)]
    lines += [line(8, 9.0, ("trivial_passes",))] * trivial
    lines += [line(9, None)] * (4 - len(lines))
    assert sweep_headline(RunSummary(problem="p", cases=tuple(lines))) == sentence
