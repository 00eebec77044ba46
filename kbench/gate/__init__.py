"""`gate`: compare a run with its baseline, or with another commit."""
