"""`kbench mcp`: tools for an agent, over stdin and stdout."""

import importlib.util

from kbench.cli import shared_flags
from kbench.cli.options import SettingsFlags, command
from kbench.core.errors import ExitCode, MachineError


class _McpFlags(SettingsFlags):
    device: str | None = shared_flags.device()


@command(_McpFlags)
def main(flags: _McpFlags) -> int:
    """Serve tools to an agent over stdin and stdout."""
    if importlib.util.find_spec("mcp") is None:
        raise MachineError("`kbench mcp` needs the mcp package", "`pip install 'kbench[mcp]'`")
    from kbench.api.judge import Judge
    from kbench.mcp.server import make_server

    settings = flags.settings()
    device = flags.device or settings.run.device
    make_server(settings, Judge(config=flags.config, device=device), device).run("stdio")
    return ExitCode.OK
