"""Texts of untrusted processes, made harmless for terminals, tables and files."""


def printable(text: str) -> str:
    """Escape all characters of a text that are not printable, line breaks apart."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)
