"""`serve`: verdicts over HTTP, for training loops. A thin layer over `api.Judge`."""
