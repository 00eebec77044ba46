"""One verdict as a unit: typed, serialisable, without files or terminal. `run` and `sweep` are made of these."""
