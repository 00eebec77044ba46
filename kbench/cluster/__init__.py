"""Sweeps over several hosts: a Ray actor for each device, which judges there as `kbench sweep` does on one host."""
