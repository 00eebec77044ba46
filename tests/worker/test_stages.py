"""How an exception of a solution is described for the judge."""

import errno
import subprocess
import sys
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
    raise PermissionError(errno.EPERM, "Operation not permitted", "/etc/of_nobody")


@pytest.mark.parametrize(
    ("raises", "added"),
    [
        (fork, "the sandbox forbids a solution to start programs"),
        (imported, "import the file beside it without the dot"),
        (kill, ""),
        (written, "the sandbox forbids a solution to write `/etc/of_nobody`"),
    ],
)
def test_an_error_that_does_not_say_why_is_completed(raises: Callable[[], None], added: str) -> None:
    with pytest.raises((OSError, ImportError)) as raised:
        raises()
    message = str(stages.describe(raised.value)["message"])
    assert message.startswith(str(raised.value))
    assert added in message
    assert bool(added) == (message != str(raised.value))


def test_a_library_that_misses_a_function_names_it_as_the_source_does() -> None:
    missing = ImportError("/tmp/x/undefined_ext.so: undefined symbol: _Z6scaledN2at6TensorEd")
    assert "`scaled(at::Tensor, double)` is declared and called" in str(stages.describe(missing)["message"])
    of_c = ImportError("x.so: undefined symbol: plain_function")
    assert "`plain_function` is declared" in str(stages.describe(of_c)["message"])


@pytest.mark.parametrize("stage", ["import", "init"])
def test_a_file_that_ends_its_process_when_it_is_loaded_raises(stage: str) -> None:
    with pytest.raises(stages.StageError) as raised, stages.Stage(stage):
        raise SystemExit(3)
    told = stages.describe(raised.value)
    assert (told["stage"], told["type"]) == (stage, "SystemExit")
    assert "ends the program (SystemExit: 3)" in str(told["message"])


def test_one_that_ends_it_in_a_call_ends_it() -> None:
    with pytest.raises(SystemExit), stages.Stage("forward"):
        raise SystemExit(3)


SAID = "k.cpp:3:34: error: expected ';' "
BYTES = {
    "latin-1": "f\u00fcr die Gr\u00f6\u00dfe",
    "cp1252": "\u2018x\u2019",
    "shift-jis": "\u65e5\u672c\u8a9e",
    "gbk": "\u9519\u8bef",
}
"""What a compiler may print, by encoding."""


def as_torch_does(command: list[str]) -> None:
    """Decode what a failed compiler printed, as torch's builder, inductor and Triton do."""
    try:
        subprocess.run(command, check=True, stdout=subprocess.PIPE)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(error.output.decode()) from error


def by_subprocess(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8")


@pytest.mark.parametrize("coding", BYTES)
@pytest.mark.parametrize("builds", [as_torch_does, by_subprocess])
def test_a_compilers_own_error_is_told_whatever_its_encoding(builds: Callable[[list[str]], None], coding: str) -> None:
    printed = (SAID + BYTES[coding]).encode(coding).hex()
    program = f"import sys; sys.stdout.buffer.write(bytes.fromhex({printed!r})); sys.exit(1)"
    with pytest.raises(UnicodeDecodeError) as raised:
        builds([sys.executable, "-c", program])
    told = stages.describe(raised.value)
    assert (told["stage"], told["type"]) == ("build", "Error building extension")
    assert str(told["message"]).startswith(SAID)
    assert SAID in str(told["traceback"])


def test_text_of_the_solutions_own_that_is_no_utf_8_is_its_own_error() -> None:
    with pytest.raises(UnicodeDecodeError) as raised:
        b"k.cpp:1: error: \xd6".decode()
    assert stages.describe(raised.value)["type"] == "UnicodeDecodeError"


@pytest.mark.parametrize(("command", "added"), [("kill -9 $$", "died with <Signals.SIGKILL: 9>"), ("exit 1", "")])
def test_a_compiler_that_was_killed_is_named_and_one_that_failed_names_its_errors(command: str, added: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        subprocess.run(["/bin/sh", "-c", command], check=True)
    error = RuntimeError("Error building extension 'twice'")
    error.__cause__ = failed.value
    message = str(stages.describe(error)["message"])
    assert message.startswith(str(error))
    assert added in message
    assert bool(added) == (message != str(error))
