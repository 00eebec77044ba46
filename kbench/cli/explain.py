"""`kbench explain`: what a code or word means, and what to do about it."""

from kbench.cli.options import OutputFlags, argument, command
from kbench.core.errors import ExitCode, UsageError, did_you_mean
from kbench.core.explain import EXPLANATIONS, explain
from kbench.report.table import table


def complete(incomplete: str) -> list[str]:
    """Complete a code or word."""
    return [one.code for code, one in EXPLANATIONS.items() if code.startswith(incomplete.lower())]


class _ExplainFlags(OutputFlags):
    code: str | None = argument(
        "CODE", "Code or word of kbench's output (default: list all)", default=None, autocompletion=complete
    )


@command(_ExplainFlags)
def main(flags: _ExplainFlags) -> int:
    """Explain a code or a word of the output."""
    output, code = flags.output(), flags.code
    one = explain(code) if code else None
    if code and one is None:
        hint = did_you_mean(code.lower(), sorted(EXPLANATIONS), listing="`kbench explain` lists all", cutoff=0.75)
        raise UsageError(f"no code or word `{code}`", hint)
    found = [one] if one is not None else [*EXPLANATIONS.values()]
    rows = [{"code": each.code, "kind": each.kind, "meaning": each.meaning} for each in found]
    whole = table([row | {"what to do": each.fix} for row, each in zip(rows, found, strict=True)])
    text = table(rows, wraps={"meaning"}).text(indent="", width=output.width)
    if one is not None:
        text = f"{one.code}  ({one.kind})\n\n{one.meaning}" + (f"\n\nhint: {one.fix}" if one.fix else "")
    output.records("explain", whole, found, lambda: text)
    return ExitCode.OK
