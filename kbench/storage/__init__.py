"""What is kept: results, baselines, settings."""
