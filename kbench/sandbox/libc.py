"""Calls of the C library that Python does not offer. Standard library only."""

import ctypes
import os


def call(function: str, *arguments: object, called: str = "") -> int:
    """Call a function; return its result. Raises OSError for a negative one, under the name that it is `called`."""
    result = int(getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{called or function}: {os.strerror(number)}")
    return result
