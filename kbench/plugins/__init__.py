"""What is judged: the problem format, and where problems and solutions are found."""
