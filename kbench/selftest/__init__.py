"""`selftest`: every attack of the shipped corpus must be caught, every honest look-alike must pass."""
