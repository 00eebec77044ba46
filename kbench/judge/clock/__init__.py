"""Timing: pairs of reference and candidate, within the bounds of the judge's own clock."""
