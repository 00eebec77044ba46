"""`kbench config`: every effective setting and where it came from."""

from kbench.cli.options import OutputFlags, command
from kbench.core.errors import ExitCode
from kbench.report.document import render_document, render_records
from kbench.report.table import table
from kbench.storage import settings


@command(OutputFlags)
def main(flags: OutputFlags) -> int:
    """Print effective settings and where each came from."""
    output = flags.output()
    values = settings.effective(flags.settings())
    shown = table(
        [
            {"setting": item.key, "value": "" if item.value is None else str(item.value), "from": item.origin}
            for item in values
        ]
    )
    output.show(
        text=lambda: shown.text(indent="", width=output.width),
        json=lambda: render_document("config", status="ok", results=values),
        csv=lambda: render_records(values, settings.EffectiveValue),
        md=shown.markdown,
    )
    return ExitCode.OK
