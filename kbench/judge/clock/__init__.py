"""Timing: pairs of reference and candidate, within the bounds of the judge's own clock."""

from kbench.core.model import Sample

FEW_READINGS = 3
"""Readings whose median is a first estimate: of loops and of sizing requests; pairs settle by two such medians."""


def unplaced(arm: str, *, event_ns: int, judge_ns: int, submit_ns: int, calls: int) -> Sample:
    """Return a sample of an arm, in ns a call; the pairing knows its place."""
    return Sample(
        process=0,
        block=0,
        sequence=0,
        arm=arm,
        t_event_ns=event_ns,
        t_host_submit_ns=submit_ns,
        t_wall_ns=judge_ns,
        calls=calls,
    )
