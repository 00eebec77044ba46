"""`kbench explain`: what a code means and what to do about it."""

from dataclasses import dataclass

from kbench.cli.options import OutputFlags, argument, command
from kbench.core.errors import ExitCode, UsageError, did_you_mean
from kbench.core.explain import EXPLANATIONS, Explanation, explain
from kbench.report.document import render_document, render_records
from kbench.report.table import table


def complete(incomplete: str) -> list[str]:
    """Complete a code."""
    return [one.code for code, one in EXPLANATIONS.items() if code.startswith(incomplete.lower())]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainFlags(OutputFlags):
    """Flags of `kbench explain`."""

    code: str | None = argument("CODE", "Code to explain (default: list all)", default=None, autocompletion=complete)


@command(ExplainFlags)
def main(flags: ExplainFlags) -> int:
    """Explain a status, finding, flag or verdict."""
    output = flags.output()
    found = _find(flags.code) if flags.code else tuple(EXPLANATIONS.values())
    rows = [{"code": one.code, "kind": one.kind, "meaning": one.meaning} for one in found]
    one = found[0]
    output.show(
        text=lambda: (
            f"{one.code}  ({one.kind})\n\n{one.meaning}\n\nhint: {one.fix}"
            if flags.code
            else table(rows, wraps={"meaning"}).text(indent="", width=output.width)
        ),
        json=lambda: render_document("explain", status="ok", results=found),
        csv=lambda: render_records(found, Explanation),
        md=table([row | {"what to do": one.fix} for row, one in zip(rows, found, strict=True)]).markdown,
    )
    return ExitCode.OK


def _find(code: str) -> tuple[Explanation, ...]:
    found = explain(code)
    if found is None:
        hint = did_you_mean(code.lower(), sorted(EXPLANATIONS), listing="`kbench explain` lists all codes")
        raise UsageError(f"no code `{code}`", hint)
    return (found,)
