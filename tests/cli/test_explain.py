"""Every code that kbench can print is explained; `explain` finds it however it is written."""

import ast
import json
import re
from pathlib import Path

import pytest

import kbench as package
from kbench.core.bottleneck import Bottleneck
from kbench.core.explain import EXPLANATIONS, explain
from kbench.core.levels import PROPERTIES, TEXTS
from kbench.core.model import Status
from kbench.core.verdict import Answer
from kbench.selftest.fixtures import CORPUS

SOURCES = Path(package.__file__).parent
GOLDEN = Path(__file__).parent.parent / "golden"
HEAD = re.compile(r" +(solution|case|verdict|problem)  .*[a-z]$")
RUN = re.compile(r"(main|pr-42|mine|eager|softmax_\w|.* and .*)( [nµm]?s)?$|[\d█·.]+")
OF_AN_ARM = re.compile(r"^reference (?=\w{3})")


def finding_codes() -> set[str]:
    """Literal codes in the sources: `Finding(code="x")`, `.note("x", ...)`."""
    codes = set()
    for path in SOURCES.rglob("*.py"):
        if path.is_relative_to(CORPUS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            given += node.args[:1] if name == "note" else []
            if name in {"Finding", "note"}:
                codes |= {value.value for value in given if isinstance(value, ast.Constant)}
    return {code for code in codes if isinstance(code, str) and code.isidentifier()}


@pytest.mark.parametrize(("codes", "kind"), [(Status, "status"), (Bottleneck, "bottleneck"), (Answer, "verdict")])
def test_every_answer_is_explained(codes, kind):
    others = {code.value for code in codes if explain(code.value).kind != kind}
    assert others <= {Status.LIBRARY_ONLY.value}, "no other table has the same code"


def test_every_finding_in_the_sources_is_explained():
    codes = finding_codes()
    assert {"skipped_shape", "host_lost"} <= codes, "the search misses some: has the way to make findings changed?"
    assert {code for code in codes if explain(code) is None} == set()


def test_every_flag_in_the_sources_is_explained():
    added = re.compile(r"flags\.(?:add|append)\(\"(\w+)\"\)")
    text = "".join(path.read_text() for path in SOURCES.rglob("*.py") if not path.is_relative_to(CORPUS))
    codes = set(added.findall(text))
    assert len(codes) > 5, "the search finds too few: has the way to set flags changed?"
    assert {code for code in codes if explain(code) is None} == set()


@pytest.mark.parametrize("text", ["UNSEEN-INTEGERS", "unseen integers", "unseen_integers"])
def test_spelling_and_parameters_do_not_matter(kbench, text):
    done = kbench("explain", text)
    assert done.code == 0
    assert done.out.startswith("unseen_integers  (property)\n\nThe solution is wrong")


def test_without_a_code_all_are_listed(kbench):
    assert len(kbench("explain", "--json").document["results"]) == len(EXPLANATIONS)
    assert len(kbench("explain").out.splitlines()) == len(EXPLANATIONS) + 1


def test_no_word_has_the_name_of_a_code() -> None:
    words = [one.code for one in EXPLANATIONS.values() if one.kind == "word"]
    assert len(words) == len(json.loads((SOURCES / "core" / "words.json").read_text()))
    codes = {code.lower() for kind, known in TEXTS.items() if kind != "property" for code in known} | {*PROPERTIES}
    assert not codes & {re.sub("[ -]", "_", word.lower()) for word in words}


def heads() -> set[str]:
    """Return the heads of columns in the golden outputs, without units and names of runs."""
    lines = [line for path in GOLDEN.glob("*.txt") for line in path.read_text().splitlines() if HEAD.match(line)]
    cells = {cell for line in lines for cell in re.split(r"  +", line.strip()) if not RUN.match(cell)}
    return {OF_AN_ARM.sub("", cell) for cell in cells}


def test_the_head_of_every_column_is_explained() -> None:
    found = heads()
    assert {"bounds", "of limit", "q3", "worst error", "wall"} <= found
    assert {word for word in found if explain(word) is None} == set()


@pytest.mark.parametrize(
    "word", ["module", "general", "weak", "host timer", "cold", "fast_p", "base", "Speed-up", "99 % bounds", "wall µs"]
)
def test_a_word_of_the_output_is_explained(kbench, word) -> None:
    done = kbench("explain", word)
    assert done.code == 0
    assert done.out.count(".") >= 1
    assert "hint" not in done.out
