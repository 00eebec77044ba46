"""Tables keep every cell in a pipe, and untrusted text can neither break them nor reach the terminal raw."""

from hypothesis import given
from hypothesis import strategies as st

from kbench.report.document import plain, render_document
from kbench.report.table import Column, escape_markdown, one_line, render_markdown_table, render_table


def test_columns_align_and_empty_ones_disappear():
    columns = [Column(title="name"), Column(title="n", right=True), Column(title="gone"), Column(title="dash")]
    text = render_table(columns, [["ä", "1", "", "–"], ["longer", "22", "", "–"]], indent="")
    assert text == "name     n\nä        1\nlonger  22"


def test_wide_and_combining_characters_take_their_width():
    text = render_table([Column(title="a"), Column(title="b")], [["漢字", "x"], ["e\u0301", "y"]], indent="")
    assert text.splitlines()[1:] == ["漢字  x", "e\u0301     y"]


@given(st.text())
def test_one_line_is_one_printable_line(text):
    shown = one_line(text)
    assert shown.isprintable() or shown == ""
    assert "\n" not in shown
    assert "\x1b" not in shown


@given(st.text())
def test_markdown_cells_cannot_break_their_row(text):
    table = render_markdown_table([Column(title="a"), Column(title="b")], [[text, "x"]])
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
