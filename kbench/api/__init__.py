"""The Python interface: a pool of warm judges, its results, and rewards."""
