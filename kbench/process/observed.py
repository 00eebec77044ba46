"""Report of a process about the files it reads and the reasons why it needs a build, checked field by field."""

from dataclasses import dataclass, field
from typing import Any

from kbench.build.observation import MAX_PATH_BYTES, MAX_PATHS
from kbench.process.channel import Message, WireError
from kbench.process.channel import field as wire_field

MAX_OBSERVED = 2 * MAX_PATHS
"""Texts of one kind that are kept of all reports."""
KINDS = ("files", "folders", "needs")


@dataclass(slots=True, kw_only=True)
class Observed:
    """Files and folders that processes of one solution or problem read, and what it needs a build for, in words."""

    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)

    def add(self, report: Any) -> None:
        """Add what a message reports, each text once. Raises WireError for what no process of kbench sends."""
        if not isinstance(report, dict):
            raise WireError("the observation is not a JSON object")
        for name in KINDS:
            own, values = getattr(self, name), wire_field(report, name, list)
            if len(values) > MAX_OBSERVED or not all(_is_text(value) for value in values):
                raise WireError(f"observed `{name}` has more than {MAX_OBSERVED} texts, or a value that is not a text")
            own[:] = [*dict.fromkeys([*own, *values])][:MAX_OBSERVED]

    def to_json(self) -> Message:
        """Return it as part of a message."""
        return {"files": self.files, "folders": self.folders, "needs": self.needs}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_PATH_BYTES and "\0" not in value
