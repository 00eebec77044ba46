"""Rungs: the restrictions of an untrusted process, and a probe for the highest one that works on this machine."""
