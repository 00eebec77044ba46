"""`kbench serve`: verdicts over HTTP."""

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from kbench.cli.options import SettingsFlags, command
from kbench.cli.output import Output
from kbench.core.errors import ExitCode, MachineError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeFlags(SettingsFlags):
    """What `kbench serve` can be told."""

    host: Annotated[str, typer.Option("--host", help="Address to listen on; others than loopback need a token")] = (
        "127.0.0.1"
    )
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on")] = 8765
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="File with the token (else KBENCH_TOKEN)")
    ] = None
    devices: Annotated[
        str | None, typer.Option("--devices", metavar="DEVICES", help="all, cpu, or indices such as 0,1 (settings)")
    ] = None
    lanes: Annotated[int | None, typer.Option("--lanes", metavar="N", min=1, help="Judges at a time per device")] = None
    jobs: Annotated[int | None, typer.Option("--jobs", metavar="N", min=1, help="Builds at a time")] = None
    quick: Annotated[bool, typer.Option("--quick", help="One process for each solution")] = False
    verify_only: Annotated[bool, typer.Option("--verify-only", help="Time nothing")] = False
    queue: Annotated[int, typer.Option("--queue", metavar="N", min=1, help="Tasks that may wait")] = 1000
    state: Annotated[
        Path | None, typer.Option("--state", metavar="DIR", help="Folder for tasks and answers (RESULTS/serve)")
    ] = None
    keep_days: Annotated[
        float, typer.Option("--keep-days", metavar="N", min=0, max=36500, help="Delete answers that are older")
    ] = 30.0
    accept_references: Annotated[
        bool, typer.Option("--accept-references", help="Take texts of problems, which the trusted judge runs")
    ] = False


@command(ServeFlags)
def main(flags: ServeFlags) -> int:
    """Serve verdicts over HTTP, for training loops."""
    try:
        from kbench.serve.server import ServerOptions, choose_token, serve
    except ModuleNotFoundError as error:
        raise MachineError(f"`kbench serve` needs {error.name}", "pip install 'kbench[serve]'") from error
    from kbench.api.judge import Judge

    output, settings = Output(), flags.settings()
    token, is_new = choose_token(_token(flags.token_file), flags.host)
    options: dict[str, Any] = {"verify_only": flags.verify_only}
    if flags.quick:
        options |= {"processes": 1, "max_processes": 1}
    # Strangers send these sources: without any sandbox there is no server.
    isolation = max(settings.run.isolation or 1, 1)
    with Judge(
        devices=flags.devices,
        lanes=flags.lanes,
        jobs=flags.jobs,
        config=flags.config,
        **{**options, "isolation": isolation},
    ) as judge:
        told = ServerOptions(
            token=token,
            state=flags.state or settings.results / "serve",
            host=flags.host,
            port=flags.port,
            most_pending=flags.queue,
            references=flags.accept_references,
            keep=timedelta(days=flags.keep_days),
        )
        output.note(f"kbench serves on http://{flags.host}:{flags.port}, answers are kept in {told.state}")
        if is_new:
            output.note(f"token, until this server ends: {token}")
        serve(judge, told)
    return ExitCode.OK


def _token(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get("KBENCH_TOKEN") or None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "a token file holds the token alone") from None
