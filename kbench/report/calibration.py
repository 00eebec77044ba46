"""A calibration as text, Markdown, JSON and CSV: one row per size class."""

from kbench.calibrate import SIZE_CLASSES, Calibration
from kbench.report import csvout, units
from kbench.report.document import render_document
from kbench.report.table import Column, render_markdown_table, render_table


def render_text(found: Calibration, processes: int) -> str:
    """Write a calibration for a terminal."""
    return f"{found.gpu_name}\n" + render_table(*_table(found, processes))


def render_markdown(found: Calibration, processes: int) -> str:
    """Write a calibration as a Markdown table."""
    return render_markdown_table(*_table(found, processes))


def render_json(found: Calibration) -> str:
    """Write a calibration as one JSON document, subject by subject."""
    return render_document("calibrate", status="ok", device=found.gpu_name, results=found.subjects)


def render_csv(found: Calibration, processes: int) -> str:
    """Write a calibration as CSV, a line per size class."""
    columns, rows = _table(found, processes)
    return csvout.render_cells([column.title for column in columns], rows)


def _table(found: Calibration, processes: int) -> tuple[list[Column], list[list[str]]]:
    columns = [
        Column(title="class"),
        Column(title="cases", right=True),
        Column(title="within a process", right=True),
        Column(title="between processes", right=True),
        Column(title=f"detectable with {processes} processes", right=True),
    ]
    ends = dict(SIZE_CLASSES)
    effects = [found.detectable(min(ends[known.name], 1e9) * 0.99, processes) for known in found.classes]
    rows = [
        [
            known.name,
            str(known.subjects),
            f"{100 * known.within:.2g} %",
            f"{100 * known.between:.2g} %",
            units.ABSENT if effect is None else f"{100 * effect:.2g} %",
        ]
        for known, effect in zip(found.classes, effects, strict=True)
    ]
    return columns, rows
