"""Builds: what a solution is made of, the cache of what was built, and the Python that runs it."""
