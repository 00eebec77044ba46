"""Protocol of judge and worker: messages, shared memory, the gate page, and data types of both."""
