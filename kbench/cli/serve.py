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
    """Flags of `kbench serve`."""

    host: Annotated[str, typer.Option("--host", help="Address to listen on; needs a token unless loopback")] = (
        "127.0.0.1"
    )
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on")] = 8765
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="File with the token (default: KBENCH_TOKEN)")
    ] = None
    devices: Annotated[
        str | None,
        typer.Option("--devices", metavar="DEVICES", help="all, cpu, or indices such as 0,1 (default: settings)"),
    ] = None
    lanes: Annotated[int | None, typer.Option("--lanes", metavar="N", min=1, help="Judges per device")] = None
    jobs: Annotated[int | None, typer.Option("--jobs", metavar="N", min=1, help="Parallel builds")] = None
    quick: Annotated[bool, typer.Option("--quick", help="Measure in one process only")] = False
    verify_only: Annotated[bool, typer.Option("--verify-only", help="Verify, and time nothing")] = False
    queue: Annotated[int, typer.Option("--queue", metavar="N", min=1, help="Largest number of waiting tasks")] = 1000
    state: Annotated[
        Path | None, typer.Option("--state", metavar="DIR", help="Folder for tasks and answers (default RESULTS/serve)")
    ] = None
    keep_days: Annotated[
        float, typer.Option("--keep-days", metavar="N", min=0, max=36500, help="Delete answers after this many days")
    ] = 30.0
    accept_references: Annotated[
        bool, typer.Option("--accept-references", help="Accept problem sources, which the trusted judge runs")
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
        output.note(f"kbench serves on http://{flags.host}:{flags.port}, answers are in {told.state}")
        if is_new:
            output.note(f"for its clients, until this server ends: `export KBENCH_TOKEN={token}`")
        serve(judge, told)
    return ExitCode.OK


def _token(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get("KBENCH_TOKEN") or None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "a token file contains only the token") from None
