"""`sweep`: many solutions of many problems, on many devices, in any order, resumable."""
