"""Parameters matched by name, order or seed; outputs held against the expectation."""

import math
from dataclasses import replace

import pytest
import torch

from kbench.core.model import Status
from kbench.judge.matching import StateEntry, check_description, scalar_outputs, synchronise, transposed, unmatched
from kbench.judge.reference.expected import Expected
from kbench.judge.reference.oracle import numbers
from kbench.process.channel import WireError, as_text
from kbench.worker.solution import descriptions, state_of


def parameter(*shape: int) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.zeros(*shape))


def entry(name: str, *shape: int, dtype: str = "torch.float32", is_parameter: bool = True) -> StateEntry:
    return StateEntry(name=name, dtype=dtype, shape=shape, is_parameter=is_parameter)


OURS = [("fc.weight", parameter(4, 3)), ("fc.bias", parameter(4)), ("mean", torch.zeros(4))]

MATCHES = {
    "same names in another order": (
        [entry("mean", 4, is_parameter=False), entry("fc.bias", 4), entry("fc.weight", 4, 3)],
        ("name", ["fc.weight", "fc.bias", "mean"]),
    ),
    "further ones of its own": (
        [entry("fc.weight", 4, 3), entry("fc.bias", 4), entry("mean", 4), entry("workspace", 99)],
        ("name", ["fc.weight", "fc.bias", "mean"]),
    ),
    "other names, same order": (
        [entry("w", 4, 3), entry("b", 4), entry("m", 4, is_parameter=False)],
        ("order", ["w", "b", "m"]),
    ),
    "does without the buffer": ([entry("w", 4, 3), entry("b", 4)], ("order", ["w", "b", None])),
    "its buffers match by name only": (
        [
            entry("w", 4, 3),
            entry("b", 4),
            entry("own", 7, is_parameter=False),
            entry("mean", 4, is_parameter=False),
        ],
        ("order", ["w", "b", "mean"]),
    ),
    "all of them buffers": (
        [entry(name, *shape, is_parameter=False) for name, shape in (("w", (4, 3)), ("b", (4,)), ("m", (4,)))],
        ("order", ["w", "b", "m"]),
    ),
    "named like the reference's, in another order, without the buffer": (
        [entry("fc.bias", 4), entry("fc.weight", 4, 3)],
        ("name", ["fc.weight", "fc.bias", None]),
    ),
    "parameters by name, the buffer by order": (
        [entry("fc.bias", 4), entry("fc.weight", 4, 3), entry("m", 4, is_parameter=False)],
        ("name", ["fc.weight", "fc.bias", "m"]),
    ),
    "statistics under other names, without their counter": (
        [entry("fc.weight", 4, 3), entry("fc.bias", 4), entry("avg", 4, is_parameter=False)],
        ("name", ["fc.weight", "fc.bias", "avg"]),
    ),
    "order swapped, where shapes tell": ([entry("b", 4), entry("w", 4, 3)], ("order", ["w", "b", None])),
    "some by name, the rest by order": (
        [entry("w", 4, 3), entry("fc.bias", 4)],
        ("order", ["w", "fc.bias", None]),
    ),
    "one held under two names": (
        [entry("shift", 4), entry("fc.weight", 4, 3), replace(entry("fc.bias", 4), same_as="shift")],
        ("name", ["fc.weight", "fc.bias", None]),
    ),
    "one held under two names, neither the reference's": (
        [entry("shift", 4), entry("w", 4, 3), replace(entry("b", 4), same_as="shift")],
        ("order", ["w", "shift", None]),
    ),
    "one more than there are": ([entry("b", 4), entry("w", 4, 3), entry("more", 9)], ("seed", [])),
    "another shape": ([entry("fc.weight", 3, 4), entry("fc.bias", 4), entry("mean", 4)], ("seed", [])),
    "another dtype": (
        [entry("fc.weight", 4, 3, dtype="torch.float16"), entry("fc.bias", 4), entry("mean", 4)],
        ("seed", []),
    ),
    "nothing": ([], ("seed", [])),
}


@pytest.mark.parametrize("name", MATCHES)
def test_synchronise(name) -> None:
    theirs, expected = MATCHES[name]
    assert synchronise(OURS, theirs) == expected


GAIN = [("gain", parameter(4)), *OURS[:2]]
ALIKE = {
    "without the module's name": (
        [entry("weight", 4, 3), entry("bias", 4), entry("g", 4)],
        ("order", ["g", "weight", "bias"]),
    ),
    "with an underscore for the dot": (
        [entry("fc_bias", 4), entry("g", 4), entry("fc_weight", 4, 3)],
        ("order", ["g", "fc_weight", "fc_bias"]),
    ),
    "an alike name of another shape": (
        [entry("bias", 9), entry("fc.weight", 4, 3), entry("b", 4)],
        ("seed", []),
    ),
    "alike in two pairs: the order counts": (
        [entry("a.bias", 4), entry("w", 4, 3), entry("b.bias", 4)],
        ("order", ["a.bias", "w", "b.bias"]),
    ),
    "alike, but what is left fits in no way": ([entry("bias", 4), entry("w", 4, 3), entry("x", 5)], ("seed", [])),
    "shape by shape, in order": ([entry("x", 4), entry("y", 4), entry("w", 4, 3)], ("order", ["x", "w", "y"])),
}


@pytest.mark.parametrize("name", ALIKE)
def test_parameters_of_alike_names(name) -> None:
    theirs, expected = ALIKE[name]
    assert synchronise(GAIN, theirs) == expected


def test_alike_names_that_leave_no_way_for_the_rest_do_not_count() -> None:
    ours = [("a.p", parameter(4)), ("b", parameter(5)), ("c", parameter(4)), ("d", parameter(4))]
    theirs = [entry("x", 4), entry("y", 5), entry("p", 4), entry("z", 4)]
    assert synchronise(ours, theirs) == ("order", ["x", "y", "p", "z"])


UNMATCHED = {
    "another shape, as a buffer": (
        [entry("weight_t", 3, 4, is_parameter=False), entry("gain", 4), entry("fc.bias", 4)],
        "the reference has `fc.weight` (4, 3), and the solution buffer `weight_t` (3, 4) instead",
    ),
    "too few": ([entry("gain", 4)], "the solution lacks `fc.weight` (4, 3) and `fc.bias` (4,)"),
    "too many": (
        [entry("g", 4), entry("w", 4, 3), entry("b", 4), entry("w_t", 3, 4)],
        (
            "the reference has `gain` (4,), `fc.weight` (4, 3) and `fc.bias` (4,), and the solution "
            "`g` (4,), `w` (4, 3), `b` (4,) and `w_t` (3, 4) instead"
        ),
    ),
    "in question": (
        [entry("x", 4), entry("y", 4, is_parameter=False), entry("w", 4, 3)],
        (
            "the reference has `gain` (4,), `fc.weight` (4, 3) and `fc.bias` (4,), and the solution "
            "`x` (4,), buffer `y` (4,) and `w` (4, 3) instead"
        ),
    ),
    "other values, since they match": (
        [entry("gain", 4), entry("w", 4, 3), entry("b", 4)],
        "parameters at the same places have other values after construction",
    ),
    "many": (
        [entry(f"p{number}", number) for number in range(9)],
        (
            "the reference has `gain` (4,), `fc.weight` (4, 3) and `fc.bias` (4,), and the solution "
            "`p0` (0,), `p1` (1,), `p2` (2,), `p3` (3,) and 5 more instead"
        ),
    ),
}


@pytest.mark.parametrize("name", UNMATCHED)
def test_what_does_not_match_is_named(name) -> None:
    theirs, words = UNMATCHED[name]
    assert unmatched(GAIN, theirs, synchronise(GAIN, theirs)[1]) == words


def test_what_does_not_match_is_named_in_few_words() -> None:
    assert len(unmatched(GAIN, [entry("x" * 10_000, 1)], [])) <= 500


def test_square_parameters_that_a_constructor_transposed_are_named() -> None:
    ours = [("q", torch.rand(3, 3)), ("k", torch.rand(3, 3)), ("v", torch.rand(3, 3)), ("b", torch.rand(3))]
    theirs = [ours[0][1].t(), ours[1][1], torch.rand(3, 3), torch.rand(3)]
    assert transposed(ours, theirs, ["packed", "k", "v", None]) == "its `packed` is the reference's `q` transposed"
    assert transposed(ours, [tensor for _, tensor in ours], ["q", "k", "v", "b"]) == ""


def test_a_reference_without_state_needs_no_match() -> None:
    assert synchronise([], [entry("anything", 3)]) == ("none", [])


X = torch.zeros(2, 3)
WANT = Expected(arguments=[X], leaves=[("output['y']", torch.zeros(2)), ("output['n']", 7)])
GOOD = [["output['y']", "tensor", "torch.float32", [2], "cpu", False], ["output['n']", "int", "7", [], "", False]]


def described(number: int, position: int, value) -> list[list]:
    changed = [list(leaf) for leaf in GOOD]
    changed[number][position] = value
    return changed


WRONG = [
    (described(0, 0, "output['z']"), Status.WRONG_OUTPUT),
    (described(0, 1, "my.Subclass"), Status.WRONG_OUTPUT),
    (described(0, 2, "torch.float16"), Status.WRONG_OUTPUT),
    (described(0, 3, [2, 1]), Status.WRONG_OUTPUT),
    (described(0, 3, "forged"), Status.WRONG_OUTPUT),
    (described(0, 4, "cuda"), Status.WRONG_OUTPUT),
    (described(0, 5, True), Status.OUTPUT_ALIASED),
    (described(1, 2, "8"), Status.WRONG_VALUE),
    (described(1, 1, "float"), Status.WRONG_OUTPUT),
    (described(1, 1, "tensor"), Status.WRONG_OUTPUT),
    (GOOD[:1], Status.WRONG_OUTPUT),
    ([*GOOD, GOOD[1]], Status.WRONG_OUTPUT),
    (GOOD[::-1], Status.WRONG_OUTPUT),
]


def test_a_right_description_has_no_fault() -> None:
    assert check_description(GOOD, WANT, "cpu") is None


@pytest.mark.parametrize(("description", "status"), WRONG)
def test_a_wrong_description(description, status) -> None:
    fault = check_description(description, WANT, "cpu")
    assert fault[0] is status


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (GOOD[:1], "1 output, expected 2: missing `output['n']`"),
        ([["output", *GOOD[0][1:]]], "it returns one value; the reference returns a container of 2"),
        ([["output", "NoneType", "None", [], "", False]], "it returns None; the reference returns a container of 2"),
        ([*GOOD, ["output['z']", *GOOD[1][1:]]], "3 outputs, expected 2: unexpected `output['z']`"),
        (
            [["output['y'][0]", *GOOD[0][1:]], ["output['y'][1]", *GOOD[0][1:]], GOOD[1]],
            "3 outputs, expected 2: missing `output['y']`, unexpected `output['y'][0]` and `output['y'][1]`",
        ),
        (described(1, 1, "float"), "output['n'] is 7 (float), expected 7 (int)"),
        (
            [GOOD[0], ["output['n']", "tensor", "torch.int64", [], "cpu", False]],
            "output['n'] is a tensor of torch.int64, expected 7 (int)",
        ),
        (described(1, 2, "8"), "output['n'] is 8, expected 7"),
    ],
)
def test_what_is_wrong_with_a_description_in_words(description, words) -> None:
    fault = check_description(description, WANT, "cpu")
    assert fault[1] == words


@pytest.mark.parametrize("forged", [None, {}, "text", [1, 2], [[1, 2]], [GOOD[0], GOOD[1][:5]]])
def test_what_is_no_description(forged) -> None:
    with pytest.raises(WireError):
        check_description(forged, WANT, "cpu")


def test_an_output_may_alias_where_the_references_does() -> None:
    view = Expected(arguments=[X], leaves=[("output", X[0])])
    description = [["output", "tensor", "torch.float32", [3], "cpu", True]]
    assert check_description(description, view, "cpu", frozenset({"output"})) is None
    refused = check_description(description, view, "cpu", frozenset({"other"}))
    assert refused is not None
    assert refused[0] is Status.OUTPUT_ALIASED


def test_a_long_text_is_held_against_all_of_it() -> None:
    text = "word " * 100
    want = Expected(arguments=[X], leaves=[("output", text)])
    for said, right in ((text, True), (text[:-1] + "x", False), (text[:100], False)):
        description = [["output", "str", as_text(said), [], "", False]]
        assert (check_description(description, want, "cpu") is None) is right


@pytest.mark.parametrize(
    ("wanted", "kind", "text", "told"),
    [
        (0.1, "float", "0.25", 0.25),
        (0.1, "float", "inf", math.inf),
        (0.1, "float", "tenth", None),
        (0.1, "float", "(1+2j)", None),
        (0.1, "float", None, None),
        (0.1, "float", 10**400, None),
        (0.1, "complex", "(0.1+0j)", None),
        (0.1, "int", "0", None),
        (1j, "complex", "(0.5+2j)", 0.5 + 2j),
        (1j, "complex", "nonsense", None),
        (3, "int", "3", ()),
        (3, "int", "4", None),
        (True, "bool", "True", ()),
    ],
)
def test_a_number_with_a_fraction_is_told_and_any_other_must_be_the_same(wanted, kind, text, told) -> None:
    leaves = [("output", wanted)]
    want = Expected(arguments=[X], leaves=leaves, numbers=numbers(leaves, torch.float32))
    description = [["output", kind, text, [], "", False]]
    found = check_description(description, want, "cpu")
    assert (found is None) == (told is not None)
    if found is None:
        assert [number.item() for number in scalar_outputs(description, want)] == ([] if told == () else [told])


@pytest.mark.parametrize(
    ("theirs", "names"),
    [
        ([], [None]),
        ([entry("pe", 4, 3, is_parameter=False)], ["pe"]),
        ([entry("other", 7, is_parameter=False)], [None]),
        ([entry("as_a_parameter", 4, 3)], [None]),
    ],
)
def test_a_solution_may_have_another_table_where_there_are_no_parameters(theirs, names) -> None:
    assert synchronise([("table", torch.zeros(4, 3))], theirs) == ("order", names)


def test_a_counter_may_be_missing() -> None:
    ours = [("w", parameter(3)), ("mean", torch.zeros(3)), ("var", torch.ones(3)), ("count", torch.tensor(0))]
    theirs = [entry("w", 3), entry("m", 3, is_parameter=False), entry("v", 3, is_parameter=False)]
    assert synchronise(ours, theirs) == ("name", ["w", "m", "v", None])


def test_shapes_that_occur_twice_are_taken_in_order() -> None:
    ours = [("a", parameter(4)), ("b", parameter(4)), ("c", parameter(3))]
    assert synchronise(ours, [entry("z", 3), entry("x", 4), entry("y", 4)]) == ("order", ["x", "y", "z"])
    assert synchronise(ours, [entry("z", 3), entry("x", 4), entry("y", 3)]) == ("seed", [])


def test_names_come_before_places() -> None:
    ours = [("constant", parameter(1)), ("linear.weight", parameter(4, 3)), ("linear.bias", parameter(4))]
    theirs = [entry("weight", 4, 3), entry("bias", 4), entry("constant", 1)]
    assert synchronise(ours, theirs) == ("order", ["constant", "weight", "bias"])


def test_a_parameter_under_two_names_is_described_once() -> None:
    inner = torch.nn.Linear(2, 2)
    outer = torch.nn.Module()
    outer.shift, outer.inner = inner.bias, inner
    told = {name: same_as for name, _, _, _, same_as in descriptions(state_of(outer))}
    assert told == {"shift": "", "inner.weight": "", "inner.bias": "shift"}


@pytest.mark.parametrize("given", [[], GOOD])
def test_a_container_in_place_of_one_value_is_named(given) -> None:
    wanted = Expected(arguments=[], leaves=[("output", torch.ones(2))])
    said = f"it returns a container of {len(given)}; the reference returns one value"
    assert check_description(given, wanted, "cpu") == (Status.WRONG_OUTPUT, said)
