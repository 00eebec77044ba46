"""Child processes and what they say: start, deadline, kill, messages, shared memory, the gate page."""
