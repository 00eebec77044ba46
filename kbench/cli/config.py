"""`kbench config`: every effective setting and where it came from."""

from kbench.cli.options import OutputFlags, command
from kbench.core.errors import ExitCode
from kbench.report.table import table
from kbench.storage import settings


@command(OutputFlags)
def main(flags: OutputFlags) -> int:
    """Print effective settings and where each came from."""
    values = settings.effective(flags.settings())
    rows = [
        {"setting": item.key, "value": "not set" if item.value is None else str(item.value), "from": item.origin}
        for item in values
    ]
    flags.output().records("config", table(rows), values)
    return ExitCode.OK
