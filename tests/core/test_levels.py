"""The rules about levels, each with its table: what belongs where, is held, passes, and is lost to the gate."""

import itertools

import pytest

from kbench.core.errors import UsageError
from kbench.core.explain import explain
from kbench.core.levels import (
    PROPERTIES,
    WEIGHT_CODES,
    Level,
    Standing,
    blocking,
    foremost,
    held,
    level_in_words,
    lost,
    require_codes,
    shortfall,
    unknown_word,
    untried,
)
from kbench.core.model import Status
from kbench.judge.refusal import FATAL, STRAY_WRITES
from kbench.judge.verify.variations import RESEMBLING, VARIATIONS
from kbench.process.layouts import layouts_of

TASK, MODULE, GENERAL = Level

BELONGS = {
    MODULE: {"frozen_weights", "unmatched_weights", "second_model", "batch_invariance", "values", "cases"},
    GENERAL: {
        *("weights_in_place", "output_reuse", "shapes", "strides", "channels_last", "alignment"),
        *("conditioning", "nonfinite", "unseen_integers"),
    },
}


def test_every_property_belongs_to_one_level() -> None:
    found = {level: {code for code, one in PROPERTIES.items() if one.level is level} for level in Level}
    assert found == {TASK: set(), **BELONGS}
    assert BELONGS[MODULE] >= WEIGHT_CODES


@pytest.mark.parametrize("code", PROPERTIES)
def test_every_property_is_explained_as_it_is_told(code) -> None:
    known, one = explain(code), PROPERTIES[code]
    assert (known.kind, known.fix) == ("property", one.fix)
    assert one.title in known.meaning
    assert f"`{one.level}`" in known.meaning
    assert known.fix.endswith(".")
    assert one.title[0].islower()
    assert not one.title.endswith(".")


def test_every_variation_and_layout_has_its_property() -> None:
    import torch

    for variation in (*VARIATIONS, *RESEMBLING):
        assert variation.lack in BELONGS[MODULE if variation.is_usual else GENERAL], variation.name
    for lack, _, _ in layouts_of([torch.ones(2, 3, 4, 5)]):
        assert lack in BELONGS[GENERAL]


@pytest.mark.parametrize(
    ("lacks", "accepted", "level"),
    [
        ((), (), GENERAL),
        (("strides",), (), MODULE),
        (("strides",), ("strides",), GENERAL),
        (("frozen_weights",), (), TASK),
        (("frozen_weights", "strides"), (), TASK),
        (("frozen_weights", "strides"), ("frozen_weights",), MODULE),
        (("frozen_weights", "strides"), ("strides",), TASK),
        (("frozen_weights", "strides"), ("strides", "frozen_weights"), GENERAL),
        ((), ("frozen_weights",), GENERAL),
    ],
)
def test_the_level_held(lacks, accepted, level) -> None:
    assert held(lacks, accepted) is level


@pytest.mark.parametrize(
    ("lacks", "required", "accepted", "codes"),
    [
        ((), GENERAL, (), ()),
        (("strides",), MODULE, (), ()),
        (("strides",), GENERAL, (), ("strides",)),
        (("strides",), GENERAL, ("strides",), ()),
        (("frozen_weights", "strides"), TASK, (), ()),
        (("frozen_weights", "strides"), MODULE, (), ("frozen_weights",)),
        (("values", "frozen_weights"), MODULE, ("values",), ("frozen_weights",)),
        (("values", "frozen_weights"), MODULE, (), ("frozen_weights", "values")),
    ],
)
def test_what_passes(lacks, required, accepted, codes) -> None:
    assert blocking(lacks, required, accepted) == codes
    assert bool(shortfall(lacks, required, accepted)) == bool(codes)


def test_what_passes_is_what_holds_the_required_level() -> None:
    codes = ("frozen_weights", "values", "strides", "nonfinite")
    subsets = [some for size in range(5) for some in itertools.combinations(codes, size)]
    for lacks, accepted, required in itertools.product(subsets, subsets, Level):
        passes = not blocking(lacks, required, accepted)
        assert passes == (held(lacks, accepted).rank >= required.rank)


@pytest.mark.parametrize(
    ("lacks", "required", "sentence"),
    [
        (
            ("frozen_weights",),
            MODULE,
            (
                "holds the level `task`, and `module` is required: "
                "right with the weights it was constructed with, and wrong or failing "
                "once they change (frozen_weights); if that is enough, add `--level task` or `--accept frozen_weights`"
            ),
        ),
        (
            ("channels_last", "strides"),
            GENERAL,
            (
                "holds the level `module`, and `general` is required: "
                "wrong or failing for inputs with other strides (strides); it "
                "lacks channels_last, too; if that is enough, add `--level module` or "
                "`--accept channels_last --accept strides`"
            ),
        ),
        (
            ("cases", "frozen_weights", "second_model", "values"),
            MODULE,
            (
                "holds the level `task`, and `module` is required: "
                "right with the weights it was constructed with, and wrong or failing once they change "
                "(frozen_weights); it lacks cases, second_model, values, too; if that is enough, add `--level task`"
            ),
        ),
    ],
)
def test_the_sentence_says_why_and_what_to_type(lacks, required, sentence) -> None:
    assert shortfall(lacks, required) == sentence


def test_the_sentence_has_what_explains_the_property_unless_that_is_its_title() -> None:
    bare, title = shortfall(["frozen_weights"], MODULE), PROPERTIES["frozen_weights"].title
    assert shortfall(["frozen_weights"], MODULE, why=title) == bare
    told = shortfall(["frozen_weights"], MODULE, why="computes GELU by tanh")
    assert told == bare.replace("(frozen_weights);", "(frozen_weights): computes GELU by tanh;")


def test_weights_are_named_before_values_and_these_before_layouts() -> None:
    assert foremost({"strides", "values", "frozen_weights"}) == "frozen_weights"
    assert foremost({"strides", "values"}) == "values"


def at(level: Level, lacks: str = "", accepted: str = "", required: Level = MODULE) -> Standing:
    return Standing(level=level, lacks=tuple(lacks.split()), accepted=tuple(accepted.split()), required=required)


LOST = [
    (Standing(), at(TASK, "values"), ()),
    (at(GENERAL), at(GENERAL), ()),
    (at(GENERAL), at(MODULE, "strides"), ("strides",)),
    (at(GENERAL), at(MODULE, "strides", "strides"), ()),
    (at(MODULE, "channels_last"), at(MODULE, "channels_last strides"), ()),
    (at(MODULE, "channels_last"), at(TASK, "channels_last frozen_weights"), ("frozen_weights",)),
    (at(TASK, "frozen_weights", "frozen_weights"), at(TASK, "frozen_weights values", "frozen_weights"), ("values",)),
    (at(TASK, "frozen_weights", "frozen_weights"), at(TASK, "frozen_weights"), ()),
    (at(TASK, required=TASK), at(TASK, "values"), ()),
]


@pytest.mark.parametrize(("old", "new", "codes"), LOST)
def test_what_the_gate_calls_lost(old, new, codes) -> None:
    assert lost(old, new) == codes


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        (at(MODULE), at(TASK, required=TASK), True),
        (at(TASK, required=TASK), at(TASK, required=TASK), False),
        (at(MODULE), at(GENERAL), False),
        (Standing(), at(TASK, required=TASK), False),
    ],
)
def test_what_was_not_tried_is_no_green(old, new, answer) -> None:
    assert untried(old, new) is answer


@pytest.mark.parametrize(
    ("level", "lacks", "accepted", "words"),
    [
        (None, (), (), ""),
        ("", (), (), ""),
        (GENERAL, (), (), "general"),
        (MODULE, ("channels_last", "strides"), (), "module; not: channels_last, strides"),
        (TASK, ("frozen_weights",), ("frozen_weights",), "task; not: frozen_weights (accepted)"),
        (TASK, ("channels_last", "frozen_weights"), (), "task; not: frozen_weights, channels_last"),
        (
            MODULE,
            ("alignment", "channels_last", "conditioning", "nonfinite", "strides"),
            (),
            "module; not: alignment, channels_last, conditioning and 2 more",
        ),
    ],
)
def test_a_level_in_words(level, lacks, accepted, words) -> None:
    assert level_in_words(level, lacks, accepted) == words


def test_only_properties_can_be_accepted() -> None:
    assert require_codes(("strides", "channels_last", "strides")) == ("channels_last", "strides")
    with pytest.raises(UsageError, match="not a property") as caught:
        require_codes(("alignmet",))
    assert caught.value.hint == "did you mean `alignment`?"


@pytest.mark.parametrize(
    ("level", "codes", "word"),
    [("", "", None), ("module", "alignment strides", None), ("high", "", "high"), ("task", "strides no", "no")],
)
def test_words_of_a_row(level, codes, word) -> None:
    assert unknown_word(level, codes) == word


def test_what_no_level_excuses() -> None:
    """An error, a crash, a hang or a lack of memory at other inputs is a lack, and what cheats do is none."""
    lacks = {
        *(Status.RAISED, Status.INIT_FAILED, Status.BUILD_FAILED, Status.WRONG_VALUE, Status.WRONG_OUTPUT),
        *(Status.UNWRITTEN_OUTPUT, Status.CRASHED, Status.ILLEGAL_ACCESS, Status.LAUNCH_FAILED, Status.CALL_TIMEOUT),
        *(Status.OUT_OF_MEMORY, Status.EXITED),
    }
    assert not lacks & FATAL
    assert STRAY_WRITES < FATAL
