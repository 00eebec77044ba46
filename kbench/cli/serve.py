"""`kbench serve`: verdicts over HTTP, for training loops."""

import ipaddress
import os
import secrets
from pathlib import Path
from typing import Any

from kbench.cli import shared_flags
from kbench.cli.options import SettingsFlags, command, option, switch
from kbench.cli.output import Output
from kbench.core.errors import ExitCode, MachineError, UsageError

SHORTEST_TOKEN = 16


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
        from kbench.serve import app as server
        from kbench.serve.service import ServerOptions
    except ModuleNotFoundError as error:
        raise MachineError(f"`kbench serve` needs {error.name}", "`pip install 'kbench[serve]'`") from error
    from kbench.api.judge import Judge

    output, settings = Output(), flags.settings()
    token, is_new = choose_token(_token(flags.token_file), flags.host)
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


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def choose_token(given: str | None, host: str) -> tuple[str, bool]:
    """Return the token, and whether it was generated here. Raises UsageError for none off loopback, or a short one."""
    if given is None:
        if not is_loopback(host):
            message = f"other machines can reach {host}, and there is no token"
            raise UsageError(message, "give one with `--token-file FILE` or KBENCH_TOKEN")
        return secrets.token_urlsafe(24), True
    if len(given) < SHORTEST_TOKEN or not given.isascii() or not given.isprintable():
        message = f"the token needs {SHORTEST_TOKEN} or more printable ASCII characters"
        raise UsageError(message, "`openssl rand -hex 24`")
    return given, False
