"""Tables keep every cell in a pipe, and untrusted text can neither break them nor reach the terminal raw."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbench.report.document import render_document
from kbench.report.table import Column, Table, escape_markdown, one_line
from kbench.storage.json_values import plain


def test_columns_align_and_empty_ones_disappear():
    columns = [Column(title="name"), Column(title="n", right=True), Column(title="gone"), Column(title="dash")]
    text = Table(columns=columns, rows=[["ä", "1", "", "–"], ["longer", "22", "", "–"]]).text(indent="")
    assert text == "name     n\nä        1\nlonger  22"


def test_wide_and_combining_characters_take_their_width():
    text = Table(columns=[Column(title="a"), Column(title="b")], rows=[["漢字", "x"], ["e\u0301", "y"]]).text(indent="")
    assert text.splitlines()[1:] == ["漢字  x", "e\u0301     y"]


@given(st.text())
def test_one_line_is_one_printable_line(text):
    shown = one_line(text)
    assert shown.isprintable() or shown == ""
    assert "\n" not in shown
    assert "\x1b" not in shown


@given(st.text())
def test_markdown_cells_cannot_break_their_row(text):
    table = Table(columns=[Column(title="a"), Column(title="b")], rows=[[f"{text}.", "x"]]).markdown()
    row = table.split("\n", 2)[2]
    assert "\n" not in row
    unescaped = row.replace("\\\\", "").replace("\\|", "")
    assert unescaped.count("|") == 3
    assert "<" not in escape_markdown(text).replace("\\<", "")


@given(
    st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.tuples(inner))
)
def test_every_value_becomes_json(value):
    assert render_document("x", status="ok", results=[value])
    assert plain(float("nan")) == "nan"


COLUMNS = (
    Column(title="name"),
    Column(title="time", right=True),
    Column(title="bar", spare=True),
    Column(title="error", right=True, spare=True),
    Column(title="why", wraps=True),
)
ROWS = [
    ["a_rather_long_name", "12.5", "████", "1e-06", "slower than the limit that the margin of the gate sets for it"],
    ["b", "3.25", "█", "", ""],
]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            None,
            """\
name                time  bar   error  why
a_rather_long_name  12.5  ████  1e-06  slower than the limit that the margin of the gate sets for it
b                   3.25  █""",
        ),
        (
            98,
            """\
name                time  bar   why
a_rather_long_name  12.5  ████  slower than the limit that the margin of the gate sets for it
b                   3.25  █""",
        ),
        (
            60,
            """\
name                time  why
a_rather_long_name  12.5  slower than the limit that the
                          margin of the gate sets for it
b                   3.25""",
        ),
        (
            40,
            """\
name                time
a_rather_long_name  12.5
    why: slower than the limit that the
      margin of the gate sets for it
b                   3.25""",
        ),
    ],
)
def test_a_terminal_gets_what_it_has_room_for(width, expected):
    assert Table(columns=COLUMNS, rows=ROWS).text(indent="", width=width) == expected


@given(st.integers(8, 200))
def test_no_word_of_a_text_is_lost_or_broken(width):
    shown = Table(columns=COLUMNS, rows=ROWS).text(width=width).split()
    assert [word for word in ROWS[0][4].split() if word not in shown] == []
    assert "a_rather_long_name" in shown
