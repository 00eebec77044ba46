"""How far an untrusted process is locked in: the rungs, and which of them work on this machine."""
