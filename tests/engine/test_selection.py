"""What a sweep is asked to judge: places, pairs, manifests and tasks."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sweeping import OPTIONS, PROBLEM

from kbench.core.errors import NothingSelectedError, UsageError
from kbench.core.model import Status
from kbench.devices import selection as devices
from kbench.engine.plan import make_tasks
from kbench.engine.selection import SolutionPair, expand, owner_of, pairs, read_manifest
from kbench.storage.settings import Settings

SOLUTION = "class ModelNew: ...\n"
OWNERS = [
    ("19_ReLU.py", "19_ReLU"),
    ("19_ReLU/fast.py", "19_ReLU"),
    ("19_ReLU_sample_3.py", "19_ReLU"),
    ("19_ReLU.v2.py", "19_ReLU"),
    ("19_ReLU6.py", None),
    ("9_ReLU.py", None),
    ("1_Conv_2D.py", "1_Conv_2D"),
    ("1_Conv_other.py", "1_Conv"),
    ("fast.py", None),
]


@pytest.mark.parametrize(("path", "owner"), OWNERS)
def test_whose_solution_a_file_is(path, owner) -> None:
    assert owner_of(Path(path), ["19_ReLU", "1_Conv", "1_Conv_2D"]) == owner


def test_a_manifest_names_functions_of_files_beside_it(tmp_path) -> None:
    line = '{"problem": "p.py", "solution": "%s"}\n'
    named = ["kernels.py:a", "fast.py", "mykernels.ops:a", "eager"]
    pairs = read_manifest("".join(line % name for name in named), "pairs.jsonl", tmp_path, tmp_path)
    beside = [f"{tmp_path}/kernels.py:a", f"{tmp_path}/fast.py"]
    assert [pair.solution for pair in pairs] == [*beside, "mykernels.ops:a", "eager"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for name in ("level1/1_a.py", "level1/2_b.py", "level2/1_a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(PROBLEM + f"# {name}\n")
    for name in ("mine/1_a.py", "mine/2_b_x.py", "mine/2_b/y.py", "mine/3_c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(SOLUTION + f"# {name}\n")
    return tmp_path


def names(found: list[SolutionPair]) -> list[tuple[str, str]]:
    return [
        (Path(pair.problem).stem, pair.solution if "/" not in pair.solution else Path(pair.solution).stem)
        for pair in found
    ]


def test_folders_pair_by_name_and_what_has_no_partner_is_noted(corpus) -> None:
    found, notes = pairs([str(corpus / "level1")], [str(corpus / "mine")], None, Settings())
    assert names(found) == [("1_a", "1_a"), ("2_b", "y"), ("2_b", "2_b_x")]
    assert len(notes) == 1
    assert notes[0].endswith("/3_c.py; `--pair all` judges every solution of every problem")


def test_all_with_all_and_built_in_ones(corpus) -> None:
    places = [str(corpus / "level[12]")]
    found, _ = pairs(places, ["eager"], None, Settings())
    assert names(found) == [("1_a", "eager"), ("2_b", "eager"), ("1_a", "eager")]
    found, _ = pairs([str(corpus / "level1")], [str(corpus / "mine/1_a.py")], None, Settings())
    assert names(found) == [("1_a", "1_a"), ("2_b", "1_a")]
    found, _ = pairs([str(corpus / "level1")], [str(corpus / "mine")], "all", Settings())
    assert len(found) == 8


def test_nothing_is_an_error_that_says_what_to_type(corpus) -> None:
    with pytest.raises(NothingSelectedError) as none:
        pairs([str(corpus / "level2")], [str(corpus / "mine/2_b*")], None, Settings())
    assert "--pair all" in none.value.hint
    with pytest.raises(NothingSelectedError) as none:
        pairs([str(corpus / "level2")], [], None, Settings())
    assert "--self" in none.value.hint
    (corpus / "empty").mkdir()
    for place in ("empty", "level9/*.py"):
        with pytest.raises(UsageError):
            expand(str(corpus / place), Settings(), "problem")


def test_a_name_that_is_not_known_is_no_problem_without_solutions(corpus) -> None:
    for place, message in (("nope", "no problem named `nope`"), (str(corpus / "nope.py"), "no problem file")):
        with pytest.raises(UsageError, match=message):
            pairs([place], [str(corpus / "mine")], None, Settings())


@pytest.mark.parametrize("text", ["", "problem,solution\n"])
def test_a_manifest_without_lines_says_so(corpus, text) -> None:
    with pytest.raises(NothingSelectedError, match=r"list\.csv has no pair"):
        read_manifest(text, "list.csv", corpus, corpus)


CSV = "problem,solution,entry,claim,tags\nlevel1/1_a.py,mine/1_a.py,Model,1.5,fast new\nlevel1/2_b.py,eager,,,\n"


def test_manifests(corpus) -> None:
    lines = [
        {
            "problem": "level1/1_a.py",
            "solution": "mine/1_a.py",
            "entry": "Model",
            "claim": 1.5,
            "tags": ["fast", "new"],
        },
        {"problem": "level1/2_b.py", "solution": "eager"},
    ]
    jsonl = "\n".join(json.dumps(line) for line in lines)
    wanted = [
        SolutionPair(
            problem=str(corpus / "level1/1_a.py"),
            solution=str(corpus / "mine/1_a.py"),
            entry="Model",
            claim=1.5,
            tags=("fast", "new"),
        ),
        SolutionPair(problem=str(corpus / "level1/2_b.py"), solution="eager"),
    ]
    for text, name in ((CSV, "m.csv"), (jsonl, "m.jsonl")):
        assert read_manifest(text, name, corpus, corpus / "sources") == wanted


def test_texts_are_kept_once_under_a_safe_name(corpus) -> None:
    line = {"problem": "level1/1_a.py", "source": SOLUTION, "name": "../../etc/x"}
    lines = [line, line, {**line, "source": SOLUTION + "\ud800"}, {"problem_source": PROBLEM, "solution": "eager"}]
    found = read_manifest("\n".join(map(json.dumps, lines)), "-", corpus, corpus / "sources")
    assert found[0] == found[1] != found[2]
    kept = sorted(path.name for path in (corpus / "sources").iterdir())
    assert len(kept) == 3
    assert all(Path(pair.solution).parent == corpus / "sources" for pair in found[:3])
    assert Path(found[0].solution).read_text() == SOLUTION
    assert Path(found[3].problem).read_text() == PROBLEM


WRONG = {
    "no json": ("nope", "is not JSON"),
    "no object": ("[]", "not an object"),
    "an unknown field": ('{"problem": "p", "solution": "s", "claims": 1}', "`claims`"),
    "no solution": ('{"problem": "p"}', "needs `solution`"),
    "two solutions": ('{"problem": "p", "solution": "s", "source": "x"}', "needs `solution`"),
    "no problem": ('{"solution": "s"}', "needs `problem`"),
    "no number": ('{"problem": "p", "solution": "s", "claim": "fast"}', "claim"),
    "not a number": ('{"problem": "p", "solution": "s", "claim": NaN}', "claim"),
    "an infinite number": ('{"problem": "p", "solution": "s", "claim": 1e999}', "claim"),
    "tags that are none": ('{"problem": "p", "solution": "s", "tags": 5}', "`tags`"),
    "no end": ("[" * 100_000, "is not JSON"),
}


@pytest.mark.parametrize(("text", "match"), WRONG.values(), ids=WRONG)
def test_a_wrong_line_is_named(corpus, text, match) -> None:
    with pytest.raises(UsageError, match="line 1") as wrong:
        read_manifest(text, "m.jsonl", corpus, corpus)
    assert match in wrong.value.message
    assert wrong.value.hint


def tasks_of(corpus: Path, found: list[SolutionPair], **options):
    return make_tasks(found, replace(OPTIONS, **options), devices.cpu(), Settings())


def test_equal_names_are_with_unique_names_and_equal_sources_judged_once(corpus) -> None:
    for name in ("mine/again.py", "copy/other.py"):  # beside other files, the same text may be another solution
        (corpus / name).parent.mkdir(exist_ok=True)
        (corpus / name).write_text((corpus / "mine/1_a.py").read_text())
    found = [
        SolutionPair(problem=str(corpus / level / "1_a.py"), solution=str(corpus / solution))
        for level in ("level1", "level2")
        for solution in ("mine/1_a.py", "mine/again.py", "copy/other.py")
    ]
    tasks, notes = tasks_of(corpus, found)
    assert [(task.problem.name, task.solution.name, task.also) for task in tasks] == [
        ("level1.1_a", "1_a", ("again",)),
        ("level1.1_a", "other", ()),
        ("level2.1_a", "1_a", ("again",)),
        ("level2.1_a", "other", ()),
    ]
    assert "2 solutions have the same source as another" in notes[0]


def test_solutions_of_one_name_are_named_by_their_folders_as_in_a_run(corpus) -> None:
    for folder in ("here", "there"):
        (corpus / folder).mkdir()
        (corpus / folder / "my.py").write_text(f"{SOLUTION}\nFOLDER = {folder!r}\n")
    problem = str(corpus / "level1/1_a.py")
    found = [SolutionPair(problem=problem, solution=str(corpus / folder / "my.py")) for folder in ("here", "there")]
    tasks, _ = tasks_of(corpus, [*found, found[0]])
    assert [task.solution.name for task in tasks] == ["here.my", "there.my"]


def test_solutions_that_name_each_other_have_a_verdict_each(corpus) -> None:
    """They are made of the same two files, and the wrong one shared the verdict of the right one."""
    for name, other in (("right", "wrong"), ("wrong", "right")):
        (corpus / f"{name}.py").write_text(f'{SOLUTION}\nOTHER = "{other}.py"\n')
    problem = str(corpus / "level1/1_a.py")
    found = [SolutionPair(problem=problem, solution=str(corpus / f"{name}.py")) for name in ("right", "wrong")]
    tasks, notes = tasks_of(corpus, found)
    assert [(task.solution.name, task.also) for task in tasks] == [("right", ()), ("wrong", ())]
    assert notes == []


def test_what_cannot_be_read_is_refused_and_does_not_end_the_sweep(corpus) -> None:
    (corpus / "level1/3_c.py").write_text("no python(")
    (corpus / "mine/none.py").write_text("x = 1\n")
    found = [
        SolutionPair(problem=str(corpus / "level1/3_c.py"), solution="eager"),
        SolutionPair(problem=str(corpus / "level1/1_a.py"), solution=str(corpus / "mine/none.py")),
        SolutionPair(problem=str(corpus / "level1/1_a.py"), solution=str(corpus / "mine/1_a.py")),
    ]
    tasks, _ = tasks_of(corpus, found)
    assert [task.refused.status if task.refused else None for task in tasks] == [
        Status.REFERENCE_FAILED,
        Status.IMPORT_FAILED,
        None,
    ]
    with pytest.raises(UsageError):
        tasks_of(corpus, [SolutionPair(problem=str(corpus / "level1/9_z.py"), solution="eager")])


def test_a_file_of_another_form_is_refused_with_what_to_type(corpus) -> None:
    (corpus / "mine/form.py").write_text("def kernel_function(x):\n    return x\n")
    pair = SolutionPair(problem=str(corpus / "level1/1_a.py"), solution=str(corpus / "mine/form.py"))
    (task,), _ = tasks_of(corpus, [pair])
    assert task.refused.reason.endswith(":kernel_function`")


@pytest.mark.parametrize(
    "line", ['{"problem": "level1/9_z.py", "solution": "eager"}', '{"problem": "level1/1_a.py", "solution": "eagr"}']
)
def test_a_line_of_a_manifest_that_names_nothing_is_named(corpus, line) -> None:
    good = '{"problem": "level1/1_a.py", "solution": "eager"}'
    with pytest.raises(UsageError, match=r"m.jsonl, line 2: "):
        tasks_of(corpus, read_manifest(f"{good}\n{line}", "m.jsonl", corpus, corpus))


def test_a_constant_that_one_problem_lacks(corpus) -> None:
    (corpus / "level1/4_n.py").write_text("n = 4\n" + PROBLEM)
    both = [SolutionPair(problem=str(corpus / f"level1/{name}.py"), solution="eager") for name in ("1_a", "4_n")]
    tasks, _ = tasks_of(corpus, both, overrides={"n": 2})
    assert [task.refused.status if task.refused else None for task in tasks] == [Status.SKIPPED, None]
    with pytest.raises(UsageError, match="no constant `n`"):
        tasks_of(corpus, both[:1], overrides={"n": 2})
