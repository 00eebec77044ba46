"""Child processes: start, deadline, kill, and what their death means."""
