"""Make the pictures of reports and of the terminal in `docs/images`: `make screenshots`. Needs Chromium.

All show files that are committed under `results`, so that anybody can make them again.
"""

import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from kbench.cli.output import paint
from kbench.cli.show import page_of
from kbench.report.run import blocks
from kbench.report.saved_run import recall
from kbench.report.table import as_text
from kbench.storage.results import read_run

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
RUN = ROOT / "results" / "h200" / "group_norm.csv"
SWEEP = ROOT / "results" / "calibration" / "sweep_h200.csv"
COLUMNS = 118
THEME = TerminalTheme(
    (20, 23, 26),
    (227, 230, 232),
    [
        (20, 23, 26),
        (255, 138, 128),
        (120, 200, 150),
        (240, 162, 74),
        (109, 179, 242),
        (200, 150, 220),
        (90, 200, 210),
        (227, 230, 232),
    ],
)
TERMINAL = """<!doctype html><meta charset="utf-8"><style>{stylesheet}
body {{ margin: 0; padding: 24px 28px; background: {background}; color: {foreground}; }}
pre {{ margin: 0; font: 15px/1.45 "DejaVu Sans Mono", ui-monospace, monospace; }}</style><pre>{code}</pre>"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One picture: what it shows, and on which screen."""

    name: str
    html: str
    width: int
    height: int
    dark: bool = False


def pictures() -> list[Picture]:
    """List what is shown."""
    run, sweep = page_of(RUN), page_of(SWEEP)
    return [
        Picture(name="report", html=run, width=1280, height=1400),
        Picture(name="report-phone-dark", html=run, width=390, height=2450, dark=True),
        Picture(name="sweep", html=sweep, width=1280, height=1750),
        Picture(name="terminal", html=_terminal(), width=1180, height=470),
    ]


def _terminal() -> str:
    """Print a saved run as a terminal shows it, with the command that does."""
    summary = recall(read_run(RUN))
    typed = str(RUN.relative_to(ROOT))
    text = f"$ kbench show {typed}\n\n" + as_text(blocks(summary), COLUMNS)
    console = Console(record=True, width=COLUMNS, force_terminal=True, file=io.StringIO())
    console.print(Text.from_ansi(paint(text)))
    return console.export_html(theme=THEME, code_format=TERMINAL)


def main() -> None:
    """Write all pictures, to the folder that is named or to `docs/images`."""
    sys.path.insert(0, str(ROOT / "tests"))
    from browser import CHROMIUM, screenshot  # noqa: PLC0415  # lies beside the tests that look at pages

    if CHROMIUM is None:
        sys.exit("no Chromium on PATH: apt-get install chromium")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for picture in pictures():
            page = Path(scratch) / f"{picture.name}.html"
            page.write_text(picture.html, encoding="utf-8")
            to = folder / f"{picture.name}.png"
            screenshot(page, to.absolute(), width=picture.width, height=picture.height, dark=picture.dark)
            print(f"written: {to}")


if __name__ == "__main__":
    main()
