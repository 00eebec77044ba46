"""`gate`: hold a run against its baseline, or against another commit."""
