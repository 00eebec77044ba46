"""How an exception of a solution is described for the judge."""

import errno
from collections.abc import Callable

import pytest

from kbench.worker import stages


def fork() -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")  # as os.fork() does behind the filter


def kill() -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


def imported() -> None:
    raise ImportError("attempted relative import with no known parent package")


def written() -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted", "/etc/exec")


@pytest.mark.parametrize(
    ("raises", "added"),
    [
        (fork, "only its build may start programs"),
        (imported, "import the file beside it without the dot"),
        (kill, ""),
        (written, ""),
    ],
)
def test_an_error_that_does_not_say_why_is_completed(raises: Callable[[], None], added: str) -> None:
    with pytest.raises((OSError, ImportError)) as raised:
        raises()
    message = str(stages.describe(raised.value)["message"])
    assert message.startswith(str(raised.value))
    assert added in message
    assert bool(added) == (message != str(raised.value))
