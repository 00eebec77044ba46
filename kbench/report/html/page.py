"""One self-contained page from sections: everything is escaped, and no script can run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kbench.core.errors import MachineError
from kbench.core.version import __version__

LOOKS = {
    **dict.fromkeys(("problem", "solution"), "head"),
    **dict.fromkeys(("constants", "lacks", "warnings"), "text"),
    "verdict": "verdict",
    "speed-up": "number strong",
}
"""Style of a column by its title."""

Part = tuple[str, Any]
"""The name of a macro in `templates/parts.html`, and what it draws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with its parts; left out if no part has anything to draw."""

    heading: str
    about: str = ""
    parts: Sequence[Part] = ()


def render(
    command: str,
    *,
    title: str,
    headline: str,
    lead: Sequence[str],
    sections: Sequence[Section],
    source: str,
) -> str:
    """Write the page of a command's result; all values are escaped. Raises MachineError without jinja2."""
    try:
        import jinja2
        import markupsafe
    except ImportError:
        raise MachineError("HTML reports need jinja2", "pip install 'kbench[html]'") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kbench.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = lambda text: markupsafe.escape(text).replace("_", markupsafe.Markup("_<wbr>"))
    return environment.get_template("page.html").render(
        command=command,
        title=title,
        headline=headline,
        lead=[line for line in lead if line],
        sections=[section for section in sections if any(_has_content(part) for _, part in section.parts)],
        source=source,
        looks=LOOKS,
        version=__version__,
    )


def _has_content(part: Any) -> bool:
    """Return whether a macro draws anything: a chart or a table without rows is empty, as is an empty text."""
    return bool(getattr(part, "rows", part))
