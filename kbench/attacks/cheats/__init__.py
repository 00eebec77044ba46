"""Solutions that must be caught: one file each, read by `kbench selftest`, never imported outside a worker."""
