"""The process boundary: judge, worker, wire, sandbox."""
