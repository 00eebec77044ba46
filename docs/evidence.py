"""Rewrite README's table and the plot from the results in `results/h200`: `make evidence`.

Everything shown is computed from the raw samples of the committed files. What failed, what was not measured and what
was measured with a source that has changed since is shown as that. `results/h200/sources.toml` has the files of every
measured source with their digest, and `stale.toml` the sources that have changed, each with its reason. A source that
changed and is not listed, or is listed and did not change, is an error.

After a new measurement: `python docs/evidence.py --measured` records the files of this checkout as the measured ones.
"""

import hashlib
import json
import math
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from kbench.catalog import registry
from kbench.catalog.registry import Entry
from kbench.compare import ComparedSide, measured
from kbench.core.model import ResultRow, Status
from kbench.core.stats import Interval
from kbench.report import units
from kbench.storage.results import Run, read_run
from kbench.storage.runfiles import SAMPLES_SUFFIX
from kbench.storage.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "h200"
PLOT = RESULTS / "time-and-limit.svg"
README = ROOT / "README.md"
SOURCES = "sources.toml"
BEGIN = "<!-- evidence: written by `make evidence`, do not edit -->\n"
END = "<!-- evidence ends -->\n"
CASE = "default"

SourceKey = tuple[str, str, str]
"""(problem, solution, SHA-256 of the sources that were measured)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The files of one measured source, its problem's among them, and the digest of their contents."""

    files: tuple[str, ...]
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One solution of one problem: a time, or why there is none."""

    solution: str
    time_ns: float | None = None
    half_width_ns: float | None = None
    speedup: Interval | None = None
    percent_of_limit: float | None = None
    weak: bool = False
    """Whether the judge's clock leaves a process's time open."""
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One problem: its limit on the device, and every solution that can run there."""

    problem: str
    limit_ns: float | None
    lines: tuple[Line, ...]


def read_runs(folder: Path) -> tuple[Run, ...]:
    """Read every run in a folder, in the order of its file names."""
    return tuple(read_run(path) for path in sorted(folder.glob("*.csv")) if not path.name.endswith(SAMPLES_SUFFIX))


def read_stale(folder: Path) -> dict[SourceKey, str]:
    """Read which measured sources are known to have changed since, with the reason why that stands."""
    listed = tomllib.loads((folder / "stale.toml").read_text(encoding="utf-8")).get("stale", [])
    return {(entry["problem"], entry["solution"], entry["source_sha256"]): entry["reason"] for entry in listed}


def read_recorded(folder: Path) -> dict[SourceKey, Recorded]:
    """Read the files of every measured source."""
    found = tomllib.loads((folder / SOURCES).read_text(encoding="utf-8")).get("source", [])
    return {
        (entry["problem"], entry["solution"], entry["source_sha256"]): Recorded(
            files=tuple(entry["files"]), sha256=entry["sha256"]
        )
        for entry in found
    }


def content_digest(files: Iterable[str]) -> str:
    """Return the SHA-256 of the names and contents of files of this checkout."""
    found = hashlib.sha256()
    for name in files:
        path = ROOT / name
        content = path.read_bytes() if path.is_file() else b""
        found.update(f"{name} {len(content)} ".encode() + content)
    return found.hexdigest()


def stale_sources(rows: Iterable[ResultRow], recorded: Mapping[SourceKey, Recorded]) -> set[SourceKey]:
    """Find the rows whose files are not recorded, or are not what was measured."""
    keys = {(row.problem, row.solution, row.source_sha256) for row in rows}
    return {key for key in keys if key not in recorded or content_digest(recorded[key].files) != recorded[key].sha256}


def record(rows: Iterable[ResultRow], recorded: Mapping[SourceKey, Recorded]) -> str:
    """Write what `sources.toml` holds if the files of this checkout are what the rows were measured with.

    Raises:
        KeyError: for a solution whose files no entry names.
    """
    files = {(problem, solution): each.files for (problem, solution, _), each in recorded.items()}
    lines = ["# The files of every measured source: written by `python docs/evidence.py --measured`."]
    for problem, solution, source in dict.fromkeys((row.problem, row.solution, row.source_sha256) for row in rows):
        names = files[problem, solution]
        fields = {"problem": problem, "solution": solution, "source_sha256": source, "sha256": content_digest(names)}
        lines += ["", "[[source]]", *(f"{key} = {json.dumps(value)}" for key, value in fields.items())]
        lines += ["files = [", *(f"    {json.dumps(name)}," for name in names), "]"]
    return "\n".join([*lines, ""])


def complaints(stale: set[SourceKey], listed: Mapping[SourceKey, str]) -> list[str]:
    """Say what is wrong with the list of stale sources; empty where it says just what is so."""
    said = []
    for problem, solution, digest in sorted(stale - listed.keys()):
        said.append(
            f"{problem}/{solution} has changed since it was measured: measure it again, or add to stale.toml:\n"
            f'[[stale]]\nproblem = "{problem}"\nsolution = "{solution}"\nsource_sha256 = "{digest}"\nreason = "..."'
        )
    for problem, solution, digest in sorted(listed.keys() - stale):
        said.append(f"{problem}/{solution} is as it was measured ({digest[:8]}): take it out of stale.toml")
    said += [f"stale.toml gives no reason for {'/'.join(key[:2])}" for key, reason in listed.items() if not reason]
    return said


def shipped(problem_names: Iterable[str]) -> dict[str, tuple[Entry, ...]]:
    """List every solution of each problem that comes with kbench and can run on a GPU."""
    found = {}
    for name in problem_names:
        entries = registry.solutions(registry.find_problem(name, Settings()), Settings())
        found[name] = tuple(entry for entry in entries if "cuda" in entry.devices)
    return found


def panel(run: Run, solutions: Sequence[str], stale: Iterable[SourceKey]) -> Panel:
    """Lay out one run: solutions that have a time, fastest first, then those that failed or were not measured."""
    found = {key[1]: each for key, each in measured(run, (CASE,)).items()}
    rows = {name: [row for row in run.rows if (row.solution, row.case) == (name, CASE)] for name in found}
    changed = {solution for problem, solution, _ in stale if problem == run.rows[0].problem}
    lines = [_line(name, each, rows[name], name in changed) for name, each in found.items()]
    lines += [Line(solution=name, remark="not measured") for name in solutions if name not in found]
    lines.sort(key=lambda line: (line.time_ns is None, line.time_ns or 0.0, line.remark == "not measured"))
    costs = next((row for row in run.rows if row.case == CASE and row.limit_ns), None)
    return Panel(
        problem=run.rows[0].problem,
        limit_ns=float(costs.limit_ns) if costs and costs.limit_ns else None,
        lines=tuple(lines),
    )


def _line(solution: str, each: ComparedSide, rows: Sequence[ResultRow], changed: bool) -> Line:
    failed = [row.status for row in rows if row.status != Status.PASSED]
    remarks = [f"failed: {failed[0]} ({len(failed)} of {len(rows)} processes)"] if failed else []
    remarks += ["source has changed since"] if changed else []
    remarks += ["faster than the limit"] if (each.percent_of_limit or 0.0) > 100 else []
    weak = sum(row.attestation == "weak" for row in rows)
    remarks += [f"not confirmed by the judge's clock in {weak} of {len(rows)} processes"] if weak else []
    return Line(
        solution=solution,
        time_ns=each.time_ns,
        half_width_ns=each.shown_half_width_ns,
        speedup=each.speedup,
        percent_of_limit=each.percent_of_limit,
        weak=weak > 0,
        remark="; ".join(remarks),
    )


HEAD = (
    "| problem | fastest solution | time | against eager | `compile` | eager | of limit | |",
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
)
BESIDE = ("compile", "eager")
"""Built-in solutions whose times stand beside the fastest one's."""


def table(panels: Iterable[Panel]) -> str:
    """Write the fastest solution of every problem as one Markdown table; the plot has all solutions."""
    lines = list(HEAD)
    for each in panels:
        fastest, others = each.lines[0], {line.solution: line for line in each.lines}
        ratio = fastest.speedup
        cells = (
            f"`{each.problem}`",
            f"`{fastest.solution}`",
            _time(fastest),
            units.speedup(ratio.centre, ratio.low, ratio.high, weak=fastest.weak) if ratio else units.ABSENT,
            *(_time(others[name]) if name in others else units.ABSENT for name in BESIDE),
            units.percent(fastest.percent_of_limit),
            fastest.remark,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _time(line: Line) -> str:
    """Write a time with its unit, in the digits that its interval confirms."""
    if line.time_ns is None:
        return units.ABSENT
    unit = units.unit_for([line.time_ns])
    return f"{units.time_cell(line.time_ns, unit, line.half_width_ns)} {unit.name}"


# --- the plot ------------------------------------------------------------------------

WIDTH, LEFT, RIGHT, ROW, TITLE, AXIS = 820, 240, 30, 22, 44, 46
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 } .name { text-anchor: end }
.tick, .unit { text-anchor: middle; font-size: 11px } .remark { font-style: italic; fill: #9a3412 }
.bar { fill: #2f6feb } .changed { fill: #2f6feb; opacity: .45 } .axis { stroke: #8c959f } .limit { stroke: #c2410c }
.limit { stroke-width: 2; stroke-dasharray: 5 3 } .label { fill: #c2410c; font-size: 11px }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .bar, .changed { fill: #6ea8fe }
.remark, .label { fill: #fdba74 } .limit { stroke: #fdba74 } .axis { stroke: #6e7681 } }
"""


def plot(panels: Sequence[Panel]) -> str:
    """Draw every panel as bars of time, with the limit as a dashed line; readable on light and on dark pages."""
    parts, top = [], 0
    for each in panels:
        parts += _panel_marks(each, top)
        top += TITLE + ROW * len(each.lines) + AXIS
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" '
        f'role="img" aria-label="Time of a call of every solution, and the limit of the device">'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _panel_marks(each: Panel, top: int) -> list[str]:
    times = [line.time_ns for line in each.lines if line.time_ns is not None]
    unit = units.unit_for([*times, each.limit_ns])
    step, count = scale(max([*times, each.limit_ns or 0.0, 1.0]) / unit.size_ns)
    pixels_per_ns = (WIDTH - LEFT - RIGHT) / (step * count * unit.size_ns)
    base = top + TITLE + ROW * len(each.lines)
    limit_x = LEFT + (each.limit_ns or 0.0) * pixels_per_ns
    remark_x = limit_x + 6 if limit_x < (LEFT + WIDTH) / 2 else LEFT + 6  # beside the limit's line where there is room
    marks = [f'<text class="title" x="8" y="{top + 18}">{escape(each.problem)}</text>']
    for number, line in enumerate(each.lines):
        marks += _line_marks(line, top + TITLE + ROW * number, pixels_per_ns, remark_x)
    marks.append(f'<line class="axis" x1="{LEFT}" y1="{base}" x2="{WIDTH - RIGHT}" y2="{base}"/>')
    for tick in range(count + 1):
        x = LEFT + tick * step * unit.size_ns * pixels_per_ns
        marks.append(f'<line class="axis" x1="{x:.1f}" y1="{base}" x2="{x:.1f}" y2="{base + 4}"/>')
        marks.append(f'<text class="tick" x="{x:.1f}" y="{base + 16}">{tick * step:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    marks.append(f'<text class="unit" x="{middle:.0f}" y="{base + 32}">time of a call, {unit.name}</text>')
    if each.limit_ns is not None:
        ends = f'x1="{limit_x:.1f}" y1="{top + TITLE - 6}" x2="{limit_x:.1f}" y2="{base}"'
        marks.append(f'<line class="limit" {ends}/>')
        label = f"limit {units.duration(each.limit_ns)}"
        marks.append(f'<text class="label" x="{limit_x:.1f}" y="{top + TITLE - 10}">{label}</text>')
    return marks


def _line_marks(line: Line, y: int, pixels_per_ns: float, remark_x: float) -> list[str]:
    marks = [f'<text class="name" x="{LEFT - 8}" y="{y + 15}">{escape(line.solution)}</text>']
    if line.time_ns is None:
        why = escape(line.remark.partition(";")[0])
        return [*marks, f'<text class="remark" x="{remark_x:.1f}" y="{y + 15}">{why}</text>']
    width = line.time_ns * pixels_per_ns
    kind = "changed" if line.remark else "bar"
    said = f"{line.solution}: {units.duration(line.time_ns)}" + (f" ({line.remark})" if line.remark else "")
    bar = f'<rect class="{kind}" x="{LEFT}" y="{y + 3}" width="{width:.1f}" height="{ROW - 6}">'
    return [*marks, f"{bar}<title>{escape(said)}</title></rect>"]


def scale(largest: float) -> tuple[float, int]:
    """Choose the step of an axis from 0, of 1, 2 or 5 times a power of ten, and how many reach `largest`."""
    power = 10 ** math.floor(math.log10(largest / 4))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power * 6 >= largest)
    return step, math.ceil(largest / step)


# --- together ------------------------------------------------------------------------


def fill(page: str, text: str) -> str:
    """Put `text` between the markers of a page.

    Raises:
        ValueError: where it has no such markers.
    """
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return f"{page[:start]}\n{text}\n{page[end:]}"


def make(folder: Path) -> tuple[str, str, list[str]]:
    """Return the table, the plot, and complaints about the list of stale sources."""
    runs, listed = read_runs(folder), read_stale(folder)
    solutions = shipped(dict.fromkeys(run.rows[0].problem for run in runs))
    panels = [panel(run, [entry.name for entry in solutions[run.rows[0].problem]], listed) for run in runs]
    stale = stale_sources((row for run in runs for row in run.rows), read_recorded(folder))
    return table(panels), plot(panels), complaints(stale, listed)


def main() -> int:
    """Rewrite README and the plot; 1 where the list of stale sources is not true."""
    if sys.argv[1:] == ["--measured"]:
        rows = [row for run in read_runs(RESULTS) for row in run.rows]
        (RESULTS / SOURCES).write_text(record(rows, read_recorded(RESULTS)), encoding="utf-8")
    text, drawing, wrong = make(RESULTS)
    page = README.read_text(encoding="utf-8")
    README.write_text(fill(page, text), encoding="utf-8")
    PLOT.write_text(drawing, encoding="utf-8")
    print("\n".join([*wrong, f"written: {README.name}, {PLOT.relative_to(ROOT)}"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
