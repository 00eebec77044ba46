"""Profiles of solutions: the sentence first, then the figures behind it."""

from collections.abc import Sequence
from typing import Any

from kbench.core.bottleneck import shortened
from kbench.core.model import Failed
from kbench.core.profile import ProfiledKernel, SolutionProfile
from kbench.profile import Explained
from kbench.report import units
from kbench.report.document import render_document, render_lines
from kbench.report.table import ReportPart, Table, one_line, table
from kbench.storage.json_values import plain

SHOWN, LISTED = 12, 40
"""Largest number of kernels in a table or a document, the longest ones."""
LEFT_OUT = {"solution", "kernels", "notes"}
LONGEST_NAME = 70
HEARSAY = "a profile is what the solution's own process reports: it explains a time, it proves nothing"
FIGURES = ("launches", "time_ns", "share", "blocks", "threads", "registers", "shared_bytes", "stack_bytes")
SPARE = dict.fromkeys(("blocks × threads", "registers", "shared", "stack"), 1)


def blocks(problem: str, found: Sequence[Explained], *, verbosity: int = 0) -> list[str | ReportPart]:
    """Write profiles as blocks; quiet: the sentences alone. Names of kernels are untrusted text."""
    if verbosity < 0:
        return [_sentence(each) for each in found]
    shown: list[str | ReportPart] = [f"{problem} · case {found[0].case} · on {found[0].device}"]
    for each in found:
        shown.append(_sentence(each))
        if isinstance(each.outcome, SolutionProfile):
            shown += [_table(each.outcome), "\n".join(f"  {line}" for line in _details(each.outcome))]
    return [*shown, "\n".join(f"note: {note}" for note in _notes(found))]


def render_csv(_problem: str, found: Sequence[Explained]) -> str:
    """Write one line per kernel."""
    return render_lines(
        [
            {
                "solution": each.solution,
                "kernel": one_line(kernel.name),
                "origin": kernel.origin.value,
                **{name: getattr(kernel, name) for name in FIGURES},
                "occupancy": held.share if held else None,
                "limiter": held.limiter if held else "",
            }
            for each in _profiles(found)
            for kernel in each.kernels
            for held in [kernel.occupancy]
        ]
    )


def render_json(problem: str, found: Sequence[Explained], *, exit_code: int) -> str:
    """Write one document, with at most LISTED kernels per solution, so that an agent can read it."""
    failed = [f"{each.solution}: {each.outcome.reason}" for each in found if isinstance(each.outcome, Failed)]
    return render_document(
        "profile",
        status="failed" if exit_code else "ok",
        reason="; ".join(failed),
        exit_code=exit_code,
        findings=[{"message": note} for note in _notes(found)],
        results=[_result(each) for each in found],
        problem=problem,
    )


def _result(each: Explained) -> dict[str, Any]:
    known = {"solution": each.solution, "case": each.case, "device": each.device}
    outcome = each.outcome
    if isinstance(outcome, Failed):
        return {**known, "status": outcome.status.value, "reason": outcome.reason}
    assert each.advice is not None, "a profile has advice"
    return {
        **known,
        "status": "ok",
        "bottleneck": each.advice.bottleneck,
        "sentence": each.advice.sentence,
        **{name: getattr(outcome, name) for name in ("own_share", "idle_share", "percent_of_limit")},
        **{name: value for name, value in plain(outcome).items() if name not in LEFT_OUT},
        "kernels": outcome.kernels[:LISTED],
        "kernels_left_out": max(0, len(outcome.kernels) - LISTED),
    }


def _sentence(each: Explained) -> str:
    if each.advice is None:
        outcome = each.outcome
        assert isinstance(outcome, Failed), "a profile has advice"
        return f"{each.solution}: {outcome.status.value.upper()}  {one_line(outcome.reason)}"
    return f"{each.solution}: {each.advice.bottleneck.value}\n  {one_line(each.advice.sentence)}"


def _table(found: SolutionProfile) -> Table:
    unit = units.unit_for(kernel.time_ns for kernel in found.kernels[:1])
    rows = [_cells(kernel, unit) for kernel in found.kernels[:SHOWN]]
    rest = found.kernels[SHOWN:]
    if rest:
        time_ns, share = sum(kernel.time_ns for kernel in rest), sum(kernel.share for kernel in rest)
        figures = {
            "kernel": f"{len(rest)} more",
            ">launches": str(sum(kernel.launches for kernel in rest)),
            ">time": f"{units.time_cell(time_ns, unit)} {unit.name}",
            ">share": units.percent(100 * share),
        }
        rows.append(dict.fromkeys(rows[0], "") | figures)
    return table(rows, spare=SPARE)


def _cells(kernel: ProfiledKernel, unit: units.TimeUnit) -> dict[str, str]:
    held = kernel.occupancy
    return {
        "kernel": _name(kernel.name),
        "whose": kernel.origin.value,
        ">launches": str(kernel.launches),
        ">time": f"{units.time_cell(kernel.time_ns, unit)} {unit.name}",
        ">share": units.percent(100 * kernel.share),
        ">blocks × threads": f"{kernel.blocks} × {kernel.threads}" if kernel.blocks else "",
        ">registers": str(kernel.registers) if kernel.registers else "",
        ">shared": units.byte_size(kernel.shared_bytes) if kernel.shared_bytes else "",
        ">stack": f"{kernel.stack_bytes} B" if kernel.stack_bytes else "",
        ">occupancy": "" if held is None else f"{units.percent(100 * held.share)} {held.limiter}".rstrip(),
    }


def _details(found: SolutionProfile) -> list[str]:
    own = f"own kernels {units.percent(100 * found.own_share)} of the time"
    if found.names_kernels:
        host = found.host
        counts = (
            (host.kernels, "kernel", "kernels"),
            (host.copies, "copy", "copies"),
            (host.allocations, "allocation", "allocations"),
            (host.synchronisations, "synchronisation", "synchronisations"),
        )
        lines = [
            f"call {units.duration(found.call_ns)}, device idle {units.percent(100 * found.idle_share)} of it; {own}",
            f"inside the call: {', '.join(f'{count} {one if count == 1 else many}' for count, one, many in counts)}",
        ]
    else:
        lines = [f"call {units.duration(found.call_ns)}, with warm caches; {own.replace('kernels', 'code')}"]
    if found.limit is not None and found.percent_of_limit is not None:
        known = ((found.gb_per_s, "GB/s"), (found.tflop_per_s, "TFLOP/s"))
        rates = ", ".join(f"{units.number(rate)} {unit}" for rate, unit in known if rate)
        lines.append(f"compulsory work: {rates}; {share_of_limit(found.percent_of_limit, found.limit.bound_by)}")
    return lines


def share_of_limit(percent: float, bound_by: str) -> str:
    """Write a call's share of the device's limit, and of a share above 100 % how that can be."""
    if percent <= 100:
        return f"{units.percent(percent)} of the device's limit, set by {bound_by}"
    if bound_by == "compute":
        return (
            f"{units.percent(percent)} of the limit of arithmetic: the peaks were measured too low, or work is left out"
        )
    return f"{units.percent(percent)} of the limit of memory: caches, which are warm here, have a higher one"


def _profiles(found: Sequence[Explained]) -> list[SolutionProfile]:
    return [each.outcome for each in found if isinstance(each.outcome, SolutionProfile)]


def _notes(found: Sequence[Explained]) -> list[str]:
    notes = [note for profile in _profiles(found) for note in profile.notes]
    return [*dict.fromkeys(map(one_line, notes)), HEARSAY]


def _name(name: str) -> str:
    return shortened(one_line(name), LONGEST_NAME)
