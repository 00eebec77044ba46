"""Strangers' words, made harmless for terminals, tables and files."""


def printable(text: str) -> str:
    """Escape what is not printable in a stranger's words, which end up on terminals, in tables and in files."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)
