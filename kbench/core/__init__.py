"""Decisions: pure functions and frozen records; standard library and numpy only."""
