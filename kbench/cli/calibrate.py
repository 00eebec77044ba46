"""`kbench calibrate`: how noisy this device is, so that the gate does not promise more than it can hold."""

from dataclasses import dataclass
from typing import Annotated

import typer

from kbench.cli import completion
from kbench.cli.options import OutputFlags, command


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateFlags(OutputFlags):
    """What `kbench calibrate` can be told."""

    problems: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROBLEM", help="Names or paths (all shipped)", autocompletion=completion.problems),
    ] = None
    case: Annotated[list[str] | None, typer.Option("--case", metavar="NAME", help="Cases; repeatable")] = None
    device: Annotated[str | None, typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:INDEX")] = (
        None
    )
    processes: Annotated[
        int | None, typer.Option("--processes", metavar="N", min=2, help="Fresh processes per case (10)")
    ] = None


@command(CalibrateFlags)
def main(flags: CalibrateFlags) -> int:
    """Measure how noisy this device is."""
    from kbench.cli import calibrating  # brings numpy, which completing a word does without

    return calibrating.calibrate(flags)
