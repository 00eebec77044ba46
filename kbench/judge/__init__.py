"""The trusted child: it holds the problem, seeds, expected values and the clock, and never imports a solution."""
