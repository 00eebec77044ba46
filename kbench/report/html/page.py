"""A self-contained page from a template: everything is escaped, and no script can run."""

from collections.abc import Sequence
from typing import Any

from kbench.core.errors import MachineError
from kbench.core.version import __version__


def render(kind: str, *, title: str, headline: str, lead: Sequence[str], source: str, **values: Any) -> str:
    """Write a page whose outline is the template `<kind>.html`; all values are escaped.

    A section without content is left out. Raises MachineError without jinja2.
    """
    try:
        import jinja2
        import markupsafe
    except ImportError:
        raise MachineError("HTML reports need jinja2", "`pip install 'kbench[html]'`") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kbench.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = lambda text: markupsafe.escape(text).replace("_", markupsafe.Markup("_<wbr>"))
    shown = {"kind": kind, "title": title, "headline": headline, "lead": [*filter(None, lead)], "source": source}
    return environment.get_template("page.html").render(**shown, version=__version__, **values)
