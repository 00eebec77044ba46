"""One self-contained page from a template: everything is escaped, and no script can run."""

from typing import Any

from kbench.core.errors import MachineError
from kbench.core.version import __version__


def render(template: str, **values: Any) -> str:
    """Fill in a template of `kbench/report/templates`; all values are escaped. Raises MachineError without jinja2."""
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
    return environment.get_template(template).render(version=__version__, **values)
