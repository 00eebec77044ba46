"""`kbench serve`: verdicts over HTTP, for training loops."""

import os
from pathlib import Path
from typing import Any

from kbench.cli import shared_flags
from kbench.cli.options import SettingsFlags, command, option, switch
from kbench.cli.output import Output
from kbench.core.errors import ExitCode, MachineError, UsageError


class _ServeFlags(SettingsFlags):
    host: str = option("--host", "Address to listen on; needs a token unless loopback", default="127.0.0.1")
    port: int = option("--port", "Port to listen on", default=8765, min=1, max=65535)
    token_file: Path | None = option("--token-file FILE", "File with the token (default: KBENCH_TOKEN)")
    devices: str | None = shared_flags.devices()
    lanes: int | None = shared_flags.lanes()
    quick: bool = shared_flags.quick()
    verify_only: bool = shared_flags.verify_only()
    queue: int = option("--queue N", "Largest number of waiting tasks", default=1000, min=1)
    state: Path | None = option("--state DIR", "Folder for tasks and answers (default RESULTS/serve)")
    accept_references: bool = switch("--accept-references", "Accept problem sources, which the trusted judge runs")


@command(_ServeFlags)
def main(flags: _ServeFlags) -> int:
    """Serve verdicts over HTTP, for training loops."""
    try:
        from kbench.serve import server
        from kbench.serve.service import ServerOptions
    except ModuleNotFoundError as error:
        raise MachineError(f"`kbench serve` needs {error.name}", "pip install 'kbench[serve]'") from error
    from kbench.api.judge import Judge

    output, settings = Output(), flags.settings()
    token, is_new = server.choose_token(_token(flags.token_file), flags.host)
    options: dict[str, Any] = {"processes": 1, "max_processes": 1} if flags.quick else {}
    with Judge(
        devices=flags.devices,
        lanes=flags.lanes,
        config=flags.config,
        verify_only=flags.verify_only,
        require_sandbox=True,  # clients send sources
        **options,
    ) as judge:
        options_of_server = ServerOptions(
            token=token,
            state=flags.state or settings.results / "serve",
            host=flags.host,
            port=flags.port,
            most_pending=flags.queue,
            references=flags.accept_references,
        )
        output.note(f"kbench serves on http://{flags.host}:{flags.port}, answers are in {options_of_server.state}")
        if is_new:
            output.note(f"for its clients, until this server ends: `export KBENCH_TOKEN={token}`")
        server.serve(judge, options_of_server)
    return ExitCode.OK


def _token(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get("KBENCH_TOKEN") or None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{path} cannot be read: {why}", "write the token, and nothing else, into that file") from None
