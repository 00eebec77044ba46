"""Why values are wrong: the usual explanations, each tried on what the solution returned."""
