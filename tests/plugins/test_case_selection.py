"""Which constants of a row came from `--set`."""

from pathlib import Path

import tiny_corpus

from kbench.plugins import case_selection, registry
from kbench.storage.settings import Settings

PROBLEM = tiny_corpus.problem(
    "x * factor",
    given="torch.rand(shape)",
    constants='shape = (2, 3)\nfactor = 1\nCASES = {"default": {}, "wide": {"shape": (4, 8)}}',
)


def test_what_a_case_sets_itself_is_not_set_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "scale.py"
    path.write_text(PROBLEM)
    problem = registry.find_problem(str(path), Settings())
    assert case_selection.set_by_hand(problem, "wide", {"shape": [4, 8]}) == {}
    assert case_selection.set_by_hand(problem, "wide", {"shape": [4, 8], "factor": 2}) == {"factor": 2}
    assert case_selection.set_by_hand(problem, "default", {"shape": [4, 8]}) == {"shape": [4, 8]}
