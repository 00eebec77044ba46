"""A calibration as a table, a row per size class, and as JSON."""

from kbench.calibrate import SIZE_CLASSES, Calibration
from kbench.report import units
from kbench.report.document import render_document
from kbench.report.table import Table, table


def table_of(found: Calibration, processes: int) -> Table:
    """Return the noise of each size class, and the change that this number of processes detects."""
    ends = dict(SIZE_CLASSES)
    effects = [found.detectable(min(ends[known.name], 1e9) * 0.99, processes) for known in found.classes]
    return table(
        [
            {
                "class": known.name,
                ">cases": str(known.subjects),
                ">within a process": f"{100 * known.within:.2g} %",
                ">between processes": f"{100 * known.between:.2g} %",
                f">detectable with {processes} processes": units.ABSENT if effect is None else f"{100 * effect:.2g} %",
            }
            for known, effect in zip(found.classes, effects, strict=True)
        ]
    )


def render_json(found: Calibration) -> str:
    """Write a calibration as one JSON document, subject by subject."""
    return render_document("calibrate", status="ok", device=found.gpu_name, results=found.subjects)
