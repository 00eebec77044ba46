"""The problem format, and where problems and solutions are found."""
