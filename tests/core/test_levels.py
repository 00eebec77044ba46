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
from kbench.judge.verify.lacks import FATAL, REFUSED, lacking, weight_property
from kbench.judge.verify.variations import RESEMBLING, VARIATIONS
from kbench.process.layouts import layouts_of

TASK, MODULE, GENERAL = Level

BELONGS = {
    MODULE: {
        *("frozen_weights", "weights_refused", "unmatched_weights", "small_weights", "second_model"),
        *("negated", "shifted", "centred", "scaled_up", "scaled_down", "spikes", "flipped_masks", "other_numbers"),
        *("same_at_samples", "changed_in_places", "mixed_values", "values_refused"),
        *("case_specialised", "case_refused"),
    },
    GENERAL: {
        *("updated_in_place", "overwritten_output", "shape_specialised", "shape_refused", "strided", "strided_refused"),
        *("channels_last", "channels_last_refused", "misaligned", "misaligned_refused"),
        *("mean_offset", "constant_rows", "denormals", "wide_range", "planted_nan", "planted_inf", "extremes_refused"),
        *("unseen_integers", "unseen_integers_refused"),
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
        assert PROPERTIES[variation.lacking].level is variation.level, variation.code
    for code, _, _ in layouts_of([torch.ones(2, 3, 4, 5)]):
        assert {code, f"{code}_refused"} <= BELONGS[GENERAL]


@pytest.mark.parametrize(
    ("lacks", "accepted", "level"),
    [
        ((), (), GENERAL),
        (("misaligned",), (), MODULE),
        (("misaligned",), ("misaligned",), GENERAL),
        (("frozen_weights",), (), TASK),
        (("frozen_weights", "misaligned"), (), TASK),
        (("frozen_weights", "misaligned"), ("frozen_weights",), MODULE),
        (("frozen_weights", "misaligned"), ("misaligned",), TASK),
        (("frozen_weights", "misaligned"), ("misaligned", "frozen_weights"), GENERAL),
        ((), ("frozen_weights",), GENERAL),
    ],
)
def test_the_level_held(lacks, accepted, level) -> None:
    assert held(lacks, accepted) is level


@pytest.mark.parametrize(
    ("lacks", "required", "accepted", "codes"),
    [
        ((), GENERAL, (), ()),
        (("misaligned",), MODULE, (), ()),
        (("misaligned",), GENERAL, (), ("misaligned",)),
        (("misaligned",), GENERAL, ("misaligned",), ()),
        (("frozen_weights", "misaligned"), TASK, (), ()),
        (("frozen_weights", "misaligned"), MODULE, (), ("frozen_weights",)),
        (("negated", "frozen_weights"), MODULE, ("negated",), ("frozen_weights",)),
        (("negated", "frozen_weights"), MODULE, (), ("frozen_weights", "negated")),
    ],
)
def test_what_passes(lacks, required, accepted, codes) -> None:
    assert blocking(lacks, required, accepted) == codes
    assert bool(shortfall(lacks, required, accepted)) == bool(codes)


def test_what_passes_is_what_holds_the_required_level() -> None:
    codes = ("frozen_weights", "negated", "misaligned", "planted_nan")
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
                "right with the weights it was constructed with, wrong "
                "once they change (frozen_weights); if that is enough, add `--level task` or `--accept frozen_weights`"
            ),
        ),
        (
            ("channels_last", "misaligned"),
            GENERAL,
            (
                "holds the level `module`, and `general` is required: "
                "wrong for channels-last inputs (channels_last); it "
                "lacks misaligned, too; if that is enough, add `--level module` or "
                "`--accept channels_last --accept misaligned`"
            ),
        ),
        (
            ("centred", "negated", "scaled_down", "shifted"),
            MODULE,
            (
                "holds the level `task`, and `module` is required: "
                "wrong for the inputs with their signs changed (negated);"
                " it lacks centred, scaled_down, shifted, too; if that is enough, add `--level task`"
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
    assert foremost({"misaligned", "negated", "frozen_weights"}) == "frozen_weights"
    assert foremost({"misaligned", "negated"}) == "negated"


LOST = [
    (Standing(), Standing(level=TASK, lacks=("negated",), required=MODULE), ()),
    (Standing(level=GENERAL, required=MODULE), Standing(level=GENERAL, required=MODULE), ()),
    (
        Standing(level=GENERAL, required=MODULE),
        Standing(level=MODULE, lacks=("misaligned",), required=MODULE),
        ("misaligned",),
    ),
    (
        Standing(level=GENERAL, required=MODULE),
        Standing(level=MODULE, lacks=("misaligned",), required=MODULE, accepted=("misaligned",)),
        (),
    ),
    (
        Standing(level=MODULE, lacks=("channels_last",), required=MODULE),
        Standing(level=MODULE, lacks=("channels_last", "misaligned"), required=MODULE),
        (),
    ),
    (
        Standing(level=MODULE, lacks=("channels_last",), required=MODULE),
        Standing(level=TASK, lacks=("channels_last", "frozen_weights"), required=MODULE),
        ("frozen_weights",),
    ),
    (
        Standing(level=TASK, lacks=("frozen_weights",), required=MODULE, accepted=("frozen_weights",)),
        Standing(level=TASK, lacks=("frozen_weights", "negated"), required=MODULE, accepted=("frozen_weights",)),
        ("negated",),
    ),
    (
        Standing(level=TASK, lacks=("frozen_weights",), required=MODULE, accepted=("frozen_weights",)),
        Standing(level=TASK, lacks=("frozen_weights",), required=MODULE),
        (),
    ),
    (Standing(level=TASK, required=TASK), Standing(level=TASK, lacks=("negated",), required=MODULE), ()),
]


@pytest.mark.parametrize(("old", "new", "codes"), LOST)
def test_what_the_gate_calls_lost(old, new, codes) -> None:
    assert lost(old, new) == codes


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        (Standing(level=MODULE, required=MODULE), Standing(level=TASK, required=TASK), True),
        (Standing(level=TASK, required=TASK), Standing(level=TASK, required=TASK), False),
        (Standing(level=MODULE, required=MODULE), Standing(level=GENERAL, required=MODULE), False),
        (Standing(), Standing(level=TASK, required=TASK), False),
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
        (MODULE, ("channels_last", "misaligned"), (), "module; not: channels_last, misaligned"),
        (TASK, ("frozen_weights",), ("frozen_weights",), "task; not: frozen_weights (accepted)"),
        (TASK, ("channels_last", "frozen_weights"), (), "task; not: frozen_weights, channels_last"),
        (
            MODULE,
            ("channels_last", "denormals", "misaligned", "planted_nan", "strided"),
            (),
            "module; not: channels_last, denormals, misaligned and 2 more",
        ),
    ],
)
def test_a_level_in_words(level, lacks, accepted, words) -> None:
    assert level_in_words(level, lacks, accepted) == words


def test_only_properties_can_be_accepted() -> None:
    assert require_codes(("misaligned", "channels_last", "misaligned")) == ("channels_last", "misaligned")
    with pytest.raises(UsageError, match="not a property") as caught:
        require_codes(("misalined",))
    assert caught.value.hint == "did you mean `misaligned`?"


@pytest.mark.parametrize(
    ("level", "codes", "word"),
    [("", "", None), ("module", "misaligned strided", None), ("high", "", "high"), ("task", "strided no", "no")],
)
def test_words_of_a_row(level, codes, word) -> None:
    assert unknown_word(level, codes) == word


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.RAISED, "shape_refused"),
        (Status.INIT_FAILED, "shape_refused"),
        (Status.BUILD_FAILED, "shape_refused"),
        (Status.WRONG_VALUE, "shape_specialised"),
        (Status.WRONG_SHAPE, "shape_specialised"),
        (Status.UNWRITTEN_OUTPUT, "shape_specialised"),
        (Status.CRASHED, "shape_specialised"),
        (Status.ILLEGAL_ACCESS, "shape_specialised"),
        (Status.LAUNCH_FAILED, "shape_specialised"),
        (Status.CALL_TIMEOUT, "shape_specialised"),
        (Status.OUT_OF_MEMORY, "shape_specialised"),
        (Status.INPUT_MUTATED, None),
        (Status.PARAMETER_MUTATED, None),
        (Status.OUTPUT_ALIASED, None),
        (Status.NONDETERMINISTIC, None),
        (Status.TAMPERED, None),
        (Status.EXITED, "shape_specialised"),
        (Status.IMPORT_FAILED, None),
        (Status.PROTOCOL_ERROR, None),
        (Status.NOT_VERIFIED, None),
    ],
)
def test_a_wrong_answer_an_error_and_what_no_level_excuses(status, code) -> None:
    assert lacking(status, "shape_specialised", "shape_refused") == code
    assert not REFUSED & FATAL


@pytest.mark.parametrize(
    ("status", "way", "diagnosis", "code"),
    [
        (Status.WRONG_VALUE, "name", "frozen_weights", "frozen_weights"),
        (Status.WRONG_VALUE, "name", None, "frozen_weights"),
        (Status.WRONG_VALUE, "name", "missing_bias", "frozen_weights"),
        (Status.WRONG_VALUE, "order", "missing_scale", "frozen_weights"),
        (Status.WRONG_VALUE, "order", "frozen_weights", "frozen_weights"),
        (Status.WRONG_VALUE, "order", None, "unmatched_weights"),
        (Status.RAISED, "name", None, "weights_refused"),
        (Status.CRASHED, "name", None, "frozen_weights"),
        (Status.PARAMETER_MUTATED, "name", None, None),
    ],
)
def test_weights_that_are_not_followed(status, way, diagnosis, code) -> None:
    assert weight_property(status, way, diagnosis) == code
