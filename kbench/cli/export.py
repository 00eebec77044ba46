"""`kbench export`: a saved run in another tool's format."""

from pathlib import Path
from typing import Literal

from kbench.cli import shared_flags
from kbench.cli.options import DocumentFlags, command, option
from kbench.core.errors import ExitCode
from kbench.storage.saved_runs import find_run


class _ExportFlags(DocumentFlags):
    run: str = shared_flags.run()
    to: Literal["pytorch-benchmark"] = option("--to", "Format", default="pytorch-benchmark")
    results: Path | None = shared_flags.results()


@command(_ExportFlags)
def main(flags: _ExportFlags) -> int:
    """Print a run as records for PyTorch's dashboard."""
    from kbench.report.dashboard import render_pytorch_benchmark  # imports numpy, which completion does not need
    from kbench.report.saved_run import recall

    output, settings = flags.output(), flags.settings()
    run = find_run(flags.run, flags.results or settings.results)
    output.data(render_pytorch_benchmark(recall(run)))
    return ExitCode.OK
