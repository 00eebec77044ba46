"""`sweep`: many problems by many solutions, on many devices, in any order, resumable."""
