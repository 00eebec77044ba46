"""`kbench config`: every effective setting and where it came from."""

from dataclasses import dataclass

from kbench.cli.options import OutputFlags, command
from kbench.core.errors import ExitCode
from kbench.report import csvout
from kbench.report.document import render_document
from kbench.report.table import Column, render_markdown_table, render_table
from kbench.storage import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFlags(OutputFlags):
    """Flags of `kbench config`."""


@command(ConfigFlags)
def main(flags: ConfigFlags) -> int:
    """Print effective settings and where each came from."""
    output = flags.output()
    values = settings.effective(flags.settings())
    columns = [Column(title="setting"), Column(title="value"), Column(title="from")]
    cells = [[item.key, "" if item.value is None else str(item.value), item.origin] for item in values]
    output.show(
        text=lambda: render_table(columns, cells, indent="", width=output.width),
        json=lambda: render_document("config", status="ok", results=values),
        csv=lambda: csvout.render_records(values, settings.EffectiveValue),
        md=lambda: render_markdown_table(columns, cells),
    )
    return ExitCode.OK
