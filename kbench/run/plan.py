"""Which solutions a run judges, from what a user names."""

from collections.abc import Sequence

from kbench.core.errors import UsageError
from kbench.devices import selection
from kbench.plugins import registry
from kbench.plugins.registry import Entry
from kbench.storage.settings import Settings


def choose_solutions(
    problem: Entry, names: Sequence[str], device: str, settings: Settings, entry: str | None = None
) -> tuple[Entry, ...]:
    """Find the named solutions, or all files that run on the device; then `eager`, if there is no file."""
    if entry is not None and not entry.isidentifier():
        raise UsageError(f"`--entry {entry}` is not a name", "write for example `--entry Model`")
    if names:
        return tuple(registry.find_solution(problem, name, settings, entry=entry) for name in dict.fromkeys(names))
    if entry is not None:
        raise UsageError("`--entry` needs a solution to look into", "name its file behind the problem")
    known = registry.solutions(problem, settings)
    kind = selection.choose(device).kind
    files = tuple(entry for entry in known if entry.builtin is None and kind in entry.devices)
    return files or tuple(entry for entry in known if entry.builtin == "eager")
