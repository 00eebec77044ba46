"""Meaning of memcheck's text (compute-sanitizer): reports with kernel and line, and the findings that follow.

Places are written in three ways (CUDA 11, 12, 13; undocumented). Lines that are not understood are reported, never
dropped.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbench.core.model import Finding, FindingKind, Status

SHOWN_REPORTS = 4
"""Number of distinct reports that become findings; further ones are only counted."""
LONGEST_KERNEL = 160


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
    """One report of memcheck: an error and its places."""

    what: str
    places: tuple[SourcePlace, ...] = ()
    detail: str = ""
    """Thread and address of the first of several equal reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A whole run of memcheck."""

    reports: tuple[SanitizerReport, ...]
    counted: int | None
    """Errors in the tool's own summary; None if it printed none and so did not finish."""
    complaints: tuple[str, ...]
    """Messages of the tool about itself: it could not attach, it ran out of memory."""


PREFIX = re.compile(r"^={5,}(?P<indent>[ \t]*)(?P<text>.*)$")
SUMMARY = re.compile(r"^ERROR SUMMARY: ([\d,]+) errors?")
BANNER = re.compile(r"^(COMPUTE-SANITIZER|CUDA-MEMCHECK|LEAK SUMMARY|ERROR SUMMARY)\b")
REPORT = re.compile(
    r"^(Invalid |Potential invalid |Malloc/Free error|Fatal UVM |Stack overflow|(Device|Warp|Lane|Cluster) [a-z])"
)
AT = re.compile(r"(?:^| )at (?P<place>.+)$")
FRAME = re.compile(r"^Device Frame: ?(?P<place>.+?)(?: \[0x[0-9a-f]+\])?$")
DETAIL = re.compile(r"^(by thread .*|(Address|Access to) 0x[0-9a-f]+ (?P<why>is .*)|and is (?P<near>.*))$")
FILE_FIRST = re.compile(r"^0x[0-9a-f]+ in (?P<file>[^:]+):(?P<line>\d+):(?P<kernel>.+)$")
KERNEL_ONLY = re.compile(r"^0x[0-9a-f]+ in (?P<kernel>.+)$")
KERNEL_FIRST = re.compile(r"^(?P<kernel>.+?)[+:]0x[0-9a-f]+(?: in (?P<file>.+):(?P<line>\d+))?$")


def parse(text: str) -> Log:
    """Read the text of one run, which may be cut off anywhere; lines without the tool's prefix are the candidate's."""
    blocks: list[tuple[str, list[str]]] = []
    counted: int | None = None
    complaints: list[str] = []
    for line in text.splitlines():
        own = PREFIX.match(line)
        if own is None or not (said := own["text"].strip()):
            continue
        if summary := SUMMARY.match(said):
            counted = int(summary[1].replace(",", ""))
        elif BANNER.match(said):
            continue
        elif len(own["indent"].expandtabs()) <= 1:
            blocks.append((said, []))
        elif blocks:
            blocks[-1][1].append(said)
    reports = []
    for head, rest in blocks:
        if REPORT.match(head):
            reports.append(_report(head, rest))
        else:
            complaints.append(head)
    return Log(reports=tuple(reports), counted=counted, complaints=tuple(dict.fromkeys(complaints)))


def place(text: str) -> SourcePlace | None:
    """Read a place as any version writes it; None for an address alone."""
    for pattern in (FILE_FIRST, KERNEL_ONLY, KERNEL_FIRST):
        if found := pattern.match(text.strip()):
            parts = found.groupdict()
            line = parts.get("line")
            return SourcePlace(kernel=parts["kernel"].strip(), file=parts.get("file"), line=int(line) if line else None)
    return None


def _report(head: str, rest: Sequence[str]) -> SanitizerReport:
    texts = [match["place"] for said in (head, *rest) if (match := AT.search(said)) and not FRAME.match(said)]
    places = [spot for text in texts if (spot := place(text)) is not None]
    frames = [spot for said in rest if (match := FRAME.match(said)) and (spot := place(match["place"])) is not None]
    if places and frames:
        # The place is in a device function; the last of its callers is the kernel.
        places[0] = SourcePlace(kernel=frames[-1].kernel, file=places[0].file, line=places[0].line)
    details = [match["why"] or match["near"] or match[0] for said in rest if (match := DETAIL.match(said))]
    return SanitizerReport(what=head, places=tuple(places), detail=", ".join(details))


def findings(log: Log, sources: Mapping[SourcePlace, str]) -> tuple[Finding, ...]:
    """Decide what a run of memcheck means for the solution; `sources` has source lines by place.

    Reports in any kernel are fatal, since a kernel gets its addresses from its caller.
    """
    groups = Counter((report.what, report.places) for report in log.reports)
    first = {(report.what, report.places): report for report in reversed(log.reports)}
    found = [_fatal(_words(first[group], count, sources)) for group, count in groups.most_common(SHOWN_REPORTS)]
    notes = []
    if len(groups) > SHOWN_REPORTS:
        notes.append(f"memcheck has {len(groups) - SHOWN_REPORTS} more reports at other places")
    if log.counted is None:
        why = "; ".join(log.complaints) or "its report breaks off"
        notes.append(f"memcheck could not finish: {why}")
    elif log.counted and not log.reports:
        why = "; ".join(log.complaints) or "no report"
        found.append(_fatal(f"memcheck counted {log.counted} errors and described none that could be read: {why}"))
    elif log.complaints:
        notes.append(f"memcheck reports about itself: {'; '.join(log.complaints)}")
    return (*found, *(Finding.note("memcheck", words[:500]) for words in notes))


def _words(report: SanitizerReport, count: int, sources: Mapping[SourcePlace, str]) -> str:
    where = []
    for spot in dict.fromkeys(report.places):
        line = sources.get(spot)
        where.append(spot.text + (f" `{line}`" if line else ""))
    words = f"{report.what} in {' and '.join(where)}" if where else report.what
    words += f" ({report.detail})" if report.detail else ""
    return words + (f"; {count} such reports" if count > 1 else "")


def _fatal(words: str) -> Finding:
    message = f"memcheck: {words}"[:800]
    status = Status.ILLEGAL_ACCESS
    return Finding(code="memcheck", kind=FindingKind.INTEGRITY, message=message, fatal=True, status=status)
