"""Timing: pairs of reference and candidate, within the bounds of the judge's own clock."""

FEW_READINGS = 3
"""Readings whose median is a first estimate: of loops and of sizing requests; pairs settle by two such medians."""
