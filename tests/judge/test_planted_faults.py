"""Planted faults: what is named right, wrong or not at all, and that faults without a code get no name."""

import collections

import pytest
import torch
from planted import NAMELESS, OF_OUTPUTS, PROBLEMS, Planted, faults

from kbench.catalog.problem import randomise, variable
from kbench.core.diagnosis import Diagnosis
from kbench.judge.alternatives import Recomputing
from kbench.judge.why import WrongAnswer, alternative, earlier_answer, partial_blocks, unwritten
from kbench.numerics import elements

MOST_WRONG = 0.05
LEAST_RIGHT = 0.9
ALIKE = {
    # What is said is true as well: 11 bits either way, and weights of construction that are 1 and 0.
    ("fp16", "tf32"),
    ("frozen_weights", "missing_scale"),
    ("frozen_weights", "missing_bias"),
    ("missing_scale", "frozen_weights"),
}


def values(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.named_parameters()}


def planted(problem: Planted, fault: str, draw: int = 0) -> tuple[WrongAnswer, list[list[torch.Tensor]]]:
    torch.manual_seed(1000 * draw + len(fault) + len(problem.name))
    model = problem.make()
    constructed = values(model)
    randomise(model, 2 * draw + 11, variable(model))
    randomise(model, 2 * draw + 12, variable(model))
    with torch.no_grad():
        earlier = [model(*problem.inputs()) for _ in range(2)]
        inputs = problem.inputs()
        want = model(*inputs)
        got = output(problem, fault, want, earlier, inputs, model, constructed)
    answer = WrongAnswer(
        got=[got],
        want=[want],
        tolerances=[elements.tolerance_for(want.dtype)],
        model=lambda: Recomputing(model, inputs, constructed),
    )
    return answer, [[outputs] for outputs in earlier]


def output(problem, fault, want, earlier, inputs, model, old) -> torch.Tensor:
    if fault in OF_OUTPUTS:
        return OF_OUTPUTS[fault](want)
    if fault in NAMELESS:
        return NAMELESS[fault](want)
    if fault == "stale_output":
        return earlier[-1].clone()
    now = values(model)
    if fault.startswith("frozen_weights"):
        kept = old
        if fault.endswith("/one"):
            name = next(iter(old))
            kept = {**now, name: old[name]}
        return torch.func.functional_call(model, kept, tuple(inputs))
    return {**problem.wrong, **problem.strange}[fault](now, *inputs)


def named(problem: Planted, code: str, fault: str, draw: int = 0) -> tuple[str, Diagnosis | None]:
    wrong, earlier = planted(problem, fault, draw)
    tolerance = wrong.tolerances[0]
    scaled = elements.compare(wrong.got[0], wrong.want[0], tolerance).ratio
    assert scaled > 1, f"{problem.name}: {fault} is no fault"
    found = next(filter(None, map(unwritten, wrong.got)), None) or earlier_answer(wrong, earlier)
    found = found or alternative(wrong, budget_s=20.0) or partial_blocks(wrong)
    said = found.code if found is not None else ""
    if said == code or (code, said) in ALIKE:
        return "right", found
    return ("unnamed" if not said else "wrong"), found


@pytest.fixture(scope="module")
def table() -> list[tuple[str, str, str, str, Diagnosis | None]]:
    """Problem, code, fault, how it was named, and the diagnosis."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors: threads of a busy machine wait for each other
    try:
        return [(p.name, code, fault, *named(p, code, fault)) for p in PROBLEMS for code, fault in faults(p)]
    finally:
        torch.set_num_threads(threads)


def in_words(table, *kinds: str) -> str:
    lines = [
        f"{problem}: {fault}: {said and said.code}: {said and said.sentence}"
        for problem, _, fault, how, said in table
        if how in kinds
    ]
    return "\n".join(lines)


def test_planted_faults_are_named(table) -> None:
    real = [row for row in table if row[1]]
    counts = collections.Counter(how for *_, how, _ in real)
    assert counts["wrong"] <= MOST_WRONG * len(real), in_words(real, "wrong")
    assert counts["right"] >= LEAST_RIGHT * len(real), in_words(real, "unnamed")


def test_faults_without_a_code_get_no_name(table) -> None:
    strange = [row for row in table if not row[1]]
    assert in_words(strange, "wrong") == ""
