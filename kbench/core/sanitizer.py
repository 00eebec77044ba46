"""What compute-sanitizer's text means: reports with kernel and line, and the findings that follow from them.

Places are written in three ways (CUDA 11, 12, 13; undocumented). What is not understood is reported, never dropped.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kbench.core.model import Finding, FindingKind, Status

SHOWN_REPORTS = 4
"""Number of distinct reports that become findings; further ones are only counted."""
LONGEST_KERNEL = 160


class Tool(StrEnum):
    """The checks of compute-sanitizer that are used, in this order."""

    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    INITCHECK = "initcheck"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlace:
    """A place in device code; it has file and line only if the code was built with line information."""

    kernel: str
    file: str | None = None
    line: int | None = None

    @property
    def text(self) -> str:
        """The place in words: `kernel(float*) at file.cu:12`."""
        return self.kernel[:LONGEST_KERNEL] + (f" at {self.file}:{self.line}" if self.file is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerReport:
    """One report of the tool: what, where, and the further places of a race."""

    what: str
    severe: bool
    """False for a warning of racecheck."""
    places: tuple[SourcePlace, ...] = ()
    detail: str = ""
    """Thread and address of the first of several equal reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A whole run of one tool."""

    reports: tuple[SanitizerReport, ...]
    counted: int | None
    """Errors and warnings in the tool's own summary; None if it printed none and so did not finish."""
    complaints: tuple[str, ...]
    """Messages of the tool about itself: it could not attach, it ran out of memory."""


FATAL_STATUS = {Tool.MEMCHECK: Status.ILLEGAL_ACCESS, Tool.RACECHECK: Status.DATA_RACE}
"""Status that a sure finding of each tool gives a solution."""

PREFIX = re.compile(r"^={5,}(?P<indent>[ \t]*)(?P<text>.*)$")
SUMMARY = re.compile(r"^ERROR SUMMARY: ([\d,]+) errors?|^RACECHECK SUMMARY: .*\(([\d,]+) errors?, ([\d,]+) warnings?\)")
BANNER = re.compile(r"^(COMPUTE-SANITIZER|CUDA-MEMCHECK|LEAK SUMMARY|RACECHECK SUMMARY|ERROR SUMMARY)\b")
REPORT = {
    Tool.MEMCHECK: re.compile(
        r"^(Invalid |Potential invalid |Malloc/Free error|Fatal UVM |Stack overflow|(Device|Warp|Lane|Cluster) [a-z])"
    ),
    Tool.RACECHECK: re.compile(r"^(?P<level>error|warn|warning):\s*(\([^)]*\)\s*)?(?P<what>.*(race|hazard).*)$", re.I),
    Tool.INITCHECK: re.compile(r"^(Uninitialized |Host API )"),
}
AT = re.compile(r"(?:^| )at (?P<place>.+)$")
FRAME = re.compile(r"^Device Frame: ?(?P<place>.+?)(?: \[0x[0-9a-f]+\])?$")
ACCESS = re.compile(r"\b(Read|Write|Atomic) access\b")
HAZARDS = re.compile(r" \[[\d,]+ hazards?\]$")
DETAIL = re.compile(r"^(by thread .*|(Address|Access to) 0x[0-9a-f]+ (?P<why>is .*)|and is (?P<near>.*))$")
FILE_FIRST = re.compile(r"^0x[0-9a-f]+ in (?P<file>[^:]+):(?P<line>\d+):(?P<kernel>.+)$")
KERNEL_ONLY = re.compile(r"^0x[0-9a-f]+ in (?P<kernel>.+)$")
KERNEL_FIRST = re.compile(r"^(?P<kernel>.+?)[+:]0x[0-9a-f]+(?: in (?P<file>.+):(?P<line>\d+))?$")


def parse(text: str, tool: Tool) -> Log:
    """Read the text of one run, which may be cut off anywhere; lines without the tool's prefix are the candidate's."""
    blocks: list[tuple[str, list[str]]] = []
    counted: int | None = None
    complaints: list[str] = []
    for line in text.splitlines():
        own = PREFIX.match(line)
        if own is None or not (said := own["text"].strip()):
            continue
        if summary := SUMMARY.match(said):
            counted = sum(int(number.replace(",", "")) for number in summary.groups() if number)
        elif BANNER.match(said):
            continue
        elif len(own["indent"].expandtabs()) <= 1:
            blocks.append((said, []))
        elif blocks:
            blocks[-1][1].append(said)
    reports = []
    for head, rest in blocks:
        if REPORT[tool].match(head):
            reports.append(_report(head, rest, tool))
        else:
            complaints.append(head)
    return Log(reports=tuple(reports), counted=counted, complaints=tuple(dict.fromkeys(complaints)))


def place(text: str) -> SourcePlace | None:
    """Read a place as any version writes it; None for an address alone."""
    said = HAZARDS.sub("", text.strip())
    for pattern in (FILE_FIRST, KERNEL_ONLY, KERNEL_FIRST):
        if found := pattern.match(said):
            parts = found.groupdict()
            line = parts.get("line")
            return SourcePlace(kernel=parts["kernel"].strip(), file=parts.get("file"), line=int(line) if line else None)
    return None


def _report(head: str, rest: Sequence[str], tool: Tool) -> SanitizerReport:
    what, severe = head, True
    if tool is Tool.RACECHECK and (found := REPORT[tool].match(head)):
        severe = found["level"].lower() == "error"
        accesses = ACCESS.findall(" ".join((head, *rest)))
        what = f"race between {' and '.join(accesses).lower()}" if accesses else found["what"].rstrip(" :")
    texts = [match["place"] for said in (head, *rest) if (match := AT.search(said)) and not FRAME.match(said)]
    places = [spot for text in texts if (spot := place(text)) is not None]
    frames = [spot for said in rest if (match := FRAME.match(said)) and (spot := place(match["place"])) is not None]
    if places and frames:
        # The place is in a device function; the last of its callers is the kernel.
        places[0] = SourcePlace(kernel=frames[-1].kernel, file=places[0].file, line=places[0].line)
    details = [match["why"] or match["near"] or match[0] for said in rest if (match := DETAIL.match(said))]
    return SanitizerReport(what=what, severe=severe, places=tuple(places), detail=", ".join(details))


def findings(
    tool: Tool,
    log: Log,
    sources: Mapping[SourcePlace, str],
    is_own: Callable[[str], bool],
    *,
    followed: bool = True,
    strict: bool,
) -> tuple[Finding, ...]:
    """Decide what a run of one tool means for the solution; `sources` has source lines by place.

    Fatal are memcheck's reports in any kernel, since a kernel gets its addresses from its caller; racecheck's errors in
    kernels that are `is_own`, if all their barriers are `followed`; and with `strict`, reads of memory that was never
    written, and what racecheck may have misunderstood.
    """
    sure = tool is Tool.MEMCHECK or (tool is Tool.RACECHECK and followed)
    verdict = functools.partial(_finding, tool, sure=sure, strict=strict)
    own = [r for r in log.reports if tool is Tool.MEMCHECK or all(is_own(p.kernel) for p in r.places)]
    groups = Counter((report.what, report.severe, report.places) for report in own)
    first = {(report.what, report.severe, report.places): report for report in reversed(own)}
    found = [
        verdict(_words(first[group], count, sources), severe=group[1])
        for group, count in groups.most_common(SHOWN_REPORTS)
    ]
    notes = []
    if len(groups) > SHOWN_REPORTS:
        notes.append(f"{tool} has {len(groups) - SHOWN_REPORTS} more reports at other places")
    if len(own) < len(log.reports):
        notes.append(f"{tool} has {len(log.reports) - len(own)} reports in kernels of libraries, which do not count")
    if log.counted is None:
        why = "; ".join(log.complaints) or "its report breaks off"
        notes.append(f"{tool} could not finish: {why}")
    elif log.counted and not log.reports:
        why = "; ".join(log.complaints) or "no report"
        unread = f"{tool} counted {log.counted} errors and described none that could be read: {why}"
        found.append(verdict(unread, severe=True))
    elif log.complaints:
        notes.append(f"{tool} says of itself: {'; '.join(log.complaints)}")
    return (*found, *(Finding.note("sanitizer", words[:500]) for words in notes))


def _words(report: SanitizerReport, count: int, sources: Mapping[SourcePlace, str]) -> str:
    where = []
    for spot in dict.fromkeys(report.places):
        line = sources.get(spot)
        where.append(spot.text + (f" `{line}`" if line else ""))
    words = f"{report.what} in {' and '.join(where)}" if where else report.what
    words += f" ({report.detail})" if report.detail else ""
    return words + (f"; {count} such reports" if count > 1 else "")


def _finding(tool: Tool, words: str, *, severe: bool, sure: bool, strict: bool) -> Finding:
    message = f"{tool}: {words}"[:800]
    if not severe:
        return Finding.note(tool.value, message)
    if sure:
        return Finding(
            code=tool.value, kind=FindingKind.INTEGRITY, message=message, fatal=True, status=FATAL_STATUS[tool]
        )
    if tool is Tool.RACECHECK:
        message += "; it may be none: racecheck does not follow all barriers that this solution's sources name"
    status = Status.BELOW_LEVEL if strict else None
    return Finding(code=tool.value, kind=FindingKind.LEVEL, message=message, fatal=strict, status=status)
