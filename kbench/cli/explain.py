"""`kbench explain`: what a code means and what to do about it."""

from kbench.cli.options import OutputFlags, argument, command
from kbench.core.errors import ExitCode, UsageError, did_you_mean
from kbench.core.explain import EXPLANATIONS, explain
from kbench.report.table import table


def complete(incomplete: str) -> list[str]:
    """Complete a code."""
    return [one.code for code, one in EXPLANATIONS.items() if code.startswith(incomplete.lower())]


class _ExplainFlags(OutputFlags):
    code: str | None = argument("CODE", "Code to explain (default: list all)", default=None, autocompletion=complete)


@command(_ExplainFlags)
def main(flags: _ExplainFlags) -> int:
    """Explain a status, finding, flag or verdict."""
    output, code = flags.output(), flags.code
    one = explain(code) if code else None
    if code and one is None:
        listing = "`kbench explain` lists all codes; other words are in docs/glossary.md"
        hint = did_you_mean(code.lower(), sorted(EXPLANATIONS), listing=listing, cutoff=0.75)
        raise UsageError(f"no code `{code}`", hint)
    found = [one] if one is not None else [*EXPLANATIONS.values()]
    rows = [{"code": each.code, "kind": each.kind, "meaning": each.meaning} for each in found]
    whole = table([row | {"what to do": each.fix} for row, each in zip(rows, found, strict=True)])
    text = table(rows, wraps={"meaning"}).text(indent="", width=output.width)
    if one is not None:
        text = f"{one.code}  ({one.kind})\n\n{one.meaning}\n\nhint: {one.fix}"
    output.records("explain", whole, found, lambda: text)
    return ExitCode.OK
