"""Verification: the checks of a solution, and the comparison of its values."""
