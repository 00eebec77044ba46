"""`kbench selftest`: the judge judged, by attacks to catch and honest solutions to pass."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kbench.cli.options import OutputFlags, command
from kbench.selftest import corpus


def complete(incomplete: str) -> list[str]:
    """Complete a fixture's name."""
    folders = (corpus.SHIPPED / "cheats", corpus.SHIPPED / "honest")
    names = [path.stem for folder in folders for path in folder.glob("[!_]*.py")]
    return sorted(name for name in names if name.startswith(incomplete))


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestFlags(OutputFlags):
    """What `kbench selftest` can be told."""

    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Fixtures (all)", autocompletion=complete)
    ] = None
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:INDEX")] = "auto"
    fast: Annotated[bool, typer.Option("--fast", help="The quick half, as in CI")] = False
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Builds and judgements side by side")] = 3
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", metavar="DIR", help="Another corpus: cheats, honest, problems"),
    ] = None
    save: Annotated[Path | None, typer.Option("--save", metavar="DIR", help="Also write CSV and JSON there")] = None


@command(SelftestFlags)
def main(flags: SelftestFlags) -> int:
    """Prove that attacks are caught and honest solutions pass."""
    from kbench.cli import selftesting  # brings numpy, which completing a word does without

    return selftesting.selftest(flags)
