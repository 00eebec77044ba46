"""One verdict as a unit: typed, without files or terminal. `run` and `sweep` are made of these."""
