"""Which constants of a row came from `--set`."""

from pathlib import Path

from texts import problem_text, written

from kbench.plugins import case_selection

TABLE = 'shape = (2, 3)\nfactor = 1\nCASES = {"default": {}, "wide": {"shape": (4, 8)}}'


def test_what_a_case_sets_itself_is_not_set_by_hand(tmp_path: Path) -> None:
    problem, _ = written(tmp_path, problem_text("return x * factor", "torch.rand(shape)", head=TABLE), {})
    assert case_selection.set_by_hand(problem, "wide", {"shape": [4, 8]}) == {}
    assert case_selection.set_by_hand(problem, "wide", {"shape": [4, 8], "factor": 2}) == {"factor": 2}
    assert case_selection.set_by_hand(problem, "default", {"shape": [4, 8]}) == {"shape": [4, 8]}
