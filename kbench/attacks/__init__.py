"""The selftest's corpus: cheats that must be caught, honest look-alikes that must pass, and their problems."""
