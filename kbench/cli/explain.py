"""`kbench explain`: what a code means and what to do about it."""

from dataclasses import dataclass
from typing import Annotated

import typer

from kbench.cli.options import OutputFlags, command
from kbench.core.errors import ExitCode, UsageError
from kbench.core.explain import EXPLANATIONS, Explanation, explain
from kbench.plugins.source import did_you_mean
from kbench.report import csvout
from kbench.report.document import render_document
from kbench.report.table import Column, render_markdown_table, render_table


def complete(incomplete: str) -> list[str]:
    """Complete a code."""
    return [code for code in EXPLANATIONS if code.startswith(incomplete)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainFlags(OutputFlags):
    """Flags of `kbench explain`."""

    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="Code to explain (default: list all)", autocompletion=complete)
    ] = None


@command(ExplainFlags)
def main(flags: ExplainFlags) -> int:
    """Explain a status, finding, flag or verdict."""
    output = flags.output()
    found = _find(flags.code) if flags.code else tuple(EXPLANATIONS.values())
    columns = [
        Column(title="code"),
        Column(title="kind"),
        Column(title="meaning", wraps=True),
        Column(title="what to do"),
    ]
    cells = [[entry.code, entry.kind, entry.meaning, entry.fix] for entry in found]
    output.show(
        text=lambda: (
            _described(found[0])
            if flags.code
            else render_table(columns[:3], [row[:3] for row in cells], indent="", width=output.width)
        ),
        json=lambda: render_document("explain", status="ok", results=found),
        csv=lambda: csvout.render_records(found, Explanation),
        md=lambda: render_markdown_table(columns, cells),
    )
    return ExitCode.OK


def _described(entry: Explanation) -> str:
    return f"{entry.code}  ({entry.kind})\n\n{entry.meaning}\n\nhint: {entry.fix}"


def _find(code: str) -> tuple[Explanation, ...]:
    found = explain(code)
    if found is None:
        hint = did_you_mean(code.lower(), sorted(EXPLANATIONS), listing="`kbench explain` lists all codes")
        raise UsageError(f"no code `{code}`", hint)
    return (found,)
