"""The Python interface: a pool of warm judges, what it returns, and rewards of it."""
