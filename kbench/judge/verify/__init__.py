"""Verification: what is tried on a solution, and whether its values are right."""
