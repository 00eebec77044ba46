"""What judge and worker speak: messages, shared memory, the gate page, and forms that both know."""
