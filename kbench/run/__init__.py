"""`run` and `verify`: plan, build, verify, time, record."""
