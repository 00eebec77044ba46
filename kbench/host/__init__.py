"""The parent's side of the process boundary: judges, builds, compute-sanitizer, the device's health."""
