"""Where long lines are broken: on a terminal, for people; never in a pipe, a file or a document."""

import io
import sys

import pytest

from kbench.cli.output import Format, Output, columns_of
from kbench.core.errors import UsageError

LONG = "warning: fused, case small: the judge's clock cannot confirm the time, so the speed-up has two digits at most"
COMMAND = "`kbench run hard_swish.py solutions/hard_swish/fused.py --case small --processes 12`"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def terminals(monkeypatch) -> tuple[Terminal, Terminal]:
    """Replace stdout and stderr by terminals of 80 columns, inside of the test: pytest sets its own before it."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    return out, err


def show(output: Output) -> None:
    """Print one long line in the selected format."""
    output.show(text=lambda: LONG, json=lambda: LONG, csv=lambda: LONG, md=lambda: LONG)


def test_text_is_broken_on_a_terminal(monkeypatch):
    out, err = terminals(monkeypatch)
    show(Output())
    Output().note(LONG)
    for stream in (out, err):
        assert [len(line) <= 80 for line in stream.getvalue().splitlines()] == [True, True]


@pytest.mark.parametrize("format_", [Format.JSON, Format.CSV, Format.MD])
def test_documents_are_not_broken(monkeypatch, format_):
    out, _ = terminals(monkeypatch)
    show(Output(format=format_))
    assert out.getvalue() == LONG + "\n"


def test_names_are_not_broken(monkeypatch):
    out, _ = terminals(monkeypatch)
    Output().data("a name with blanks " * 6 + ".html")
    assert len(out.getvalue().splitlines()) == 1


def test_commands_in_hints_stay_on_one_line(monkeypatch):
    _, err = terminals(monkeypatch)
    Output().error(UsageError("something is wrong", f"reproduce with {COMMAND}"))
    assert err.getvalue().splitlines()[-1] == f"  {COMMAND}"


def test_pipes_get_whole_lines(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    show(Output())
    Output().note(LONG)
    Output().error(UsageError(LONG, f"{LONG} {COMMAND}"))
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1
    assert [line.split(":")[0] for line in printed.err.splitlines()] == ["warning", "error", "", "hint"]


def test_columns():
    assert columns_of(io.StringIO()) is None
    assert columns_of(Terminal()) is None or columns_of(Terminal()) > 0
