"""Solutions that look like cheats and are not: each must pass."""
