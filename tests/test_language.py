"""Names, docstrings, comments, messages and pages read as the rules in `wording.py` say.

What they found when the rules came is counted for each room in tests/budget.toml and may only fall. The tests are not
searched. `python tests/test_language.py ROOM` lists what is found in a room.
"""

import ast
import sys

import budget
import pytest
import wording


def test_no_room_has_more_findings_than_its_budget() -> None:
    found = budget.complaints(budget.read(), budget.measured(), lambda kind: kind == "wording")
    above = [one for one in found if "below" not in one]
    assert not above, "\n".join(["", *above, "`python tests/test_language.py ROOM` lists them, with the rules"])
    assert not found, "\n".join(
        ["", *found, "`python tests/test_budget.py --lower` writes down what has become better"]
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("strangers", "other_gpu_processes"),
        ("_own_age_s", "seconds_since_process_start"),
        ("OF_THE_REFERENCE", "REFERENCE_STAGES"),
        ("OF_NO_VERDICT", "OPTIONS_NOT_HASHED"),
        ("would_do", "trivial_output_passes"),
        ("usual_borne_out", "baseline_delays"),
        ("tell", "send_scalars"),
        ("told", "scalar_outputs"),
        ("forget_told", "clear_sent_scalars"),
        ("HARDLY", "CONSTANT_OUTPUT_TOLERANCE"),
        ("COARSELY", "MAX_MEDIAN_ERROR_16BIT"),
    ],
)
def test_names(before: str, after: str) -> None:
    assert list(wording.broken_rules("name", before))
    assert not list(wording.broken_rules("name", after))


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (
            "comment",
            "who leaves out one call in ten is seen within ten rounds with a probability of 99 %",
            "Skipping 10 % of the calls is detected within ten rounds with 98.5 % probability.",
        ),
        (
            "docstring",
            "Who waits to go on looks this often whether it still has to.",
            "Poll interval while waiting for the device.",
        ),
        (
            "docstring",
            "Both again: what a share of 1/2, 1/4, … of the candidate's elements exceeds, and half as many.",
            "Error quantiles: the candidate's at 2⁻ᵏ, the reference's at 2⁻⁽ᵏ⁺¹⁾.",
        ),
        ("docstring", "Of one candidate, in bytes.", "Bytes of one candidate."),
        ("docstring", "Whether the worker has ended.", "The worker has ended."),
        ("comment", "The rest is read. What is stale may lie.", "The rest is read. A stale value may be wrong."),
        ("comment", "It is told how many.", "It gets the number of calls."),
        ("page", "Each claim is held against the clock.", "A claim is compared with the clock."),
        ("page", "The code of 837b2fe lets go of it.", "The code releases it; 8371234 bytes are free."),
        ("page", "Measured on 27 November.", "Measured on an H200 in May."),
        (
            "literal",
            "the reference is not accurate on these inputs [skipped_mean_offset_-128]",
            "Skipped: inputs with mean -128, where the reference itself is inaccurate.",
        ),
        ("literal", "a single call takes {} us", "one call alone took {} µs"),
        ("docstring", " ".join(["word"] * 31), " ".join(["word"] * 30) + "; " + " ".join(["word"] * 30)),
    ],
)
def test_texts(kind: str, before: str, after: str) -> None:
    assert list(wording.broken_rules(kind, before))
    assert not list(wording.broken_rules(kind, after))


def test_every_kind_of_text_is_searched_where_it_stands() -> None:
    source = (
        '"""Whoever reads."""\ntold = 1  # as made\n# It is let\n# go.\ndef f(own_x):\n    return f"{told} would do"\n'
    )
    found = wording.of_source(source, list(ast.walk(ast.parse(source))))
    lines = [int(one.partition(":")[0]) for one in found]
    assert lines == [1, 1, 2, 2, 2, 3, 5, 6], found


def test_pages_are_searched_without_their_code() -> None:
    page = "# A title\n\nA sentence\nthat tells.\n- `told`\n- Who asks.\n\n```\ntold\n```\n| a | whoever |\n"
    assert [int(one.partition(":")[0]) for one in wording.of_page(page)] == [3, 6, 11]


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in budget.findings():
        sys.exit(f"usage: python tests/test_language.py ROOM, one of {', '.join(budget.findings())}")
    sys.stdout.write("\n".join([*budget.findings()[sys.argv[1]], ""]))
