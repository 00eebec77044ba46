"""Kernels: device and host sources with their Python operators. Knows nothing of the harness."""
