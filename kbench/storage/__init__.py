"""Files: results, baselines, settings."""
