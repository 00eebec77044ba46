"""Messages between processes: JSON lines on a private socket, numbered, bounded, every field validated.

Nothing that arrives is unpickled or evaluated. Values (arguments of constructors and of `forward`, outputs) travel as
*trees*: JSON with tagged leaves, where a tensor is only a number into a list that the receiver already holds.
"""

import collections
import contextlib
import dataclasses
import functools
import hashlib
import json
import numbers
import re
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kbench.catalog.containers import fields_of

SOON_PARSED_BYTES = 1 << 14
"""Parsing a line of this length takes negligible time."""
MAX_LINE_BYTES = 4 << 20
"""A longer line is refused: the biggest honest message is a traceback or a list of parameters."""
LONGEST_TEXT = 40_000
"""Characters of an exception's message or traceback."""
MAX_FDS = 64
SEND_TIMEOUT_S = 60.0
"""A peer that reads nothing for this long has stopped serving."""
MAX_INT = (1 << 63) - 1
"""Times and counts fit 64 bits; a larger number would overflow a float later on."""
LONGEST_INT = 20
"""Digits and a sign: what 64 bits hold."""
LONGEST_VALUE = 100
"""Largest number of characters of a value that is sent as it is; a longer one is replaced by its hash."""
LONE_SURROGATE = re.compile(rb"\\u[dD]")

LEAVES: dict[str, Callable[[Any, Any], Any]] = {
    "v": lambda content, _: content,
    "i": lambda content, _: int(content),
    "f": lambda content, _: float.fromhex(content),
    "c": lambda content, _: complex(*map(float.fromhex, content)),
    "dtype": lambda content, torch: getattr(torch, content),
    "device": lambda content, torch: torch.device(content),
}
"""Decoders for the leaves of a value tree, by tag; `encode_leaf` makes the leaves."""

Message = dict[str, Any]
T = TypeVar("T")


class WireError(Exception):
    """The peer sent something that is not a valid message."""


class PeerGoneError(Exception):
    """The peer closed its end: it died, exited or was killed."""


class DeadlineError(Exception):
    """No answer within the time limit."""


class Channel:
    """One end of a stream socket that carries JSON lines, with file descriptors beside them if need be."""

    def __init__(self, sock: socket.socket):
        self._socket = sock
        self._buffer = bytearray()
        self._scanned = 0
        self.received_ns = 0
        """Arrival of the last message's end (`time.perf_counter_ns`), or for a long message the time of its parsing."""

    def fileno(self) -> int:
        """Return the descriptor, for `select`."""
        return self._socket.fileno()

    def has_news(self) -> bool:
        """Return whether something has come, or the peer is gone, so that `receive` will not wait."""
        return bool(self._buffer) or bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        """Close this end; the peer sees the end of the stream, and so does a thread that waits at this end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send one message; `fds` arrive as duplicates at the peer. Raises PeerGoneError or DeadlineError."""
        text = json.dumps(message, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        data = text.encode(errors="replace") + b"\n"
        try:
            self._socket.settimeout(SEND_TIMEOUT_S)
            if fds:
                sent = socket.send_fds(self._socket, [data], list(fds))
                data = data[sent:]
            self._socket.sendall(data)
        except TimeoutError as error:
            raise DeadlineError("the peer does not read") from error
        except (BrokenPipeError, ConnectionResetError, OSError) as error:
            raise PeerGoneError(str(error)) from error

    def receive(self, timeout_s: float | None = None, fds: list[int] | None = None) -> Message:
        """Return the next message; descriptors that come with it go to `fds`, or are refused by the kernel.

        Raises WireError, PeerGoneError or DeadlineError.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            end = self._buffer.find(b"\n", self._scanned)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._scanned = 0
                self.received_ns = time.perf_counter_ns()
                message = parse(line)
                if len(line) > SOON_PARSED_BYTES:
                    self.received_ns = time.perf_counter_ns()  # else parsing a long one would be time for free
                return message
            self._scanned = len(self._buffer)
            if self._scanned > MAX_LINE_BYTES:
                raise WireError(f"a message longer than {MAX_LINE_BYTES} bytes")
            self._read_some(deadline, fds)

    def _read_some(self, deadline: float | None, fds: list[int] | None) -> None:
        remaining = None if deadline is None else deadline - time.monotonic()
        if remaining is not None and remaining <= 0:
            raise DeadlineError
        self._socket.settimeout(remaining)
        try:
            if fds is None:
                chunk = self._socket.recv(1 << 16)
            else:
                chunk, received, _, _ = socket.recv_fds(self._socket, 1 << 16, MAX_FDS)
                fds.extend(received)
        except TimeoutError as error:
            raise DeadlineError from error
        except (ConnectionResetError, OSError) as error:
            raise PeerGoneError(str(error)) from error
        if not chunk:
            raise PeerGoneError
        self._buffer += chunk


def parse(line: bytes) -> Message:
    """Parse one line. Raises WireError unless it is a JSON object of valid Unicode, which files and terminals take."""
    try:
        message = json.loads(line, parse_int=_bounded)
        if LONE_SURROGATE.search(line):
            json.dumps(message, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise WireError("a line that is not JSON") from error
    if not isinstance(message, dict):
        raise WireError("a line that is not a JSON object")
    return message


def _bounded(digits: str) -> int:
    """Read an integer; one beyond every count and time would overflow a float later on."""
    if len(digits) > LONGEST_INT:
        raise ValueError(digits[:LONGEST_INT])
    return int(digits)


def field(message: Message, name: str, kind: type[T], minimum: float | None = None) -> T:
    """Return `message[name]` if it is exactly of `kind` (a bool is no int). Raises WireError."""
    value = message.get(name)
    if type(value) is not kind:
        raise WireError(f"field `{name}` is not {kind.__name__}")
    if isinstance(value, int) and abs(value) > MAX_INT:
        raise WireError(f"field `{name}` is beyond 64 bits")
    if minimum is not None and isinstance(value, int | float) and value < minimum:
        raise WireError(f"field `{name}` is below {minimum}")
    return value


def list_of(message: Message, name: str, length: int) -> list[Any]:
    """Return a list of exactly that length. Raises WireError."""
    values = field(message, name, list)
    if len(values) != length:
        raise WireError(f"field `{name}` has {len(values)} entries, not {length}")
    return values


def both_ends(text: str) -> str:
    """Shorten a text in its middle: a compiler's first error stands near the beginning, an exception at the end."""
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


def encode_tree(value: Any, tensor: Callable[[Any], int | None]) -> Any:
    """Encode a value; `tensor(x)` gives the number of a tensor leaf, or None where x is no tensor.

    Raises TypeError for a leaf that has no place in JSON: such an argument cannot reach a sandboxed process.
    """
    number = tensor(value)
    if number is not None:
        return {"t": number}
    if isinstance(value, dict):
        return {"d": [[encode_tree(k, tensor), encode_tree(v, tensor)] for k, v in value.items()]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"n": [[type(value).__name__, *value._fields], [encode_tree(item, tensor) for item in value]]}
    if isinstance(value, tuple | list):
        return {"u" if isinstance(value, tuple) else "l": [encode_tree(item, tensor) for item in value]}
    if fields := fields_of(value):
        return {"o": [[type(value).__name__, *fields], [encode_tree(item, tensor) for item in fields.values()]]}
    return encode_leaf(value)


def encode_leaf(value: Any) -> Any:
    """Encode what holds nothing else; see `encode_tree`."""
    if value is None or isinstance(value, bool | str):
        return {"v": value}
    if isinstance(value, numbers.Integral):  # NumPy's are numbers, too
        return {"i": str(int(value))}
    if isinstance(value, numbers.Real):
        return {"f": float(value).hex()}
    if isinstance(value, complex):
        return {"c": [value.real.hex(), value.imag.hex()]}
    if type(value).__module__ == "torch" and type(value).__name__ in {"dtype", "device"}:
        return {type(value).__name__: str(value).removeprefix("torch.")}
    raise TypeError(f"a value of type {type(value).__name__} cannot be passed to a solution")


def encode_constants(overrides: Mapping[str, Any]) -> Any:
    """Encode module constants: JSON alone has neither tuples nor infinities."""
    return encode_tree(dict(overrides), lambda _value: None)


def decode_constants(tree: Any) -> dict[str, Any]:
    """Undo `encode_constants`. Raises WireError."""
    overrides = decode_tree(tree, [])
    if not isinstance(overrides, dict):
        raise WireError("constants come as a dictionary")
    return overrides


def decode_tree(tree: Any, tensors: Sequence[Any], torch_module: Any = None) -> Any:
    """Undo `encode_tree`, taking tensor leaves from `tensors`. Raises WireError."""
    if not isinstance(tree, dict) or len(tree) != 1:
        raise WireError("not a value tree")
    ((tag, content),) = tree.items()
    match tag:
        case "t":
            return tensors[content]
        case "d":
            return {decode_tree(k, tensors, torch_module): decode_tree(v, tensors, torch_module) for k, v in content}
        case "u" | "l":
            items = [decode_tree(item, tensors, torch_module) for item in content]
            return tuple(items) if tag == "u" else items
        case "n":
            names, items = content
            return named_tuple(*names)(*(decode_tree(item, tensors, torch_module) for item in items))
        case "o":
            names, items = content
            return record(*names)(*(decode_tree(item, tensors, torch_module) for item in items))
    if tag not in LEAVES:
        raise WireError(f"unknown tag {tag!r} in a value tree")
    return LEAVES[tag](content, torch_module)


@functools.cache
def named_tuple(name: str, *fields: str) -> Any:
    """Make a class like the problem's own, of which a worker knows no more than the names."""
    return collections.namedtuple(name, fields)  # noqa: PYI024 - its fields are known here only


@functools.cache
def record(name: str, *fields: str) -> Any:
    """Make a class with the fields of the problem's own dataclass or namespace, which a worker does not have."""
    return dataclasses.make_dataclass(name, fields)


def as_text(value: Any) -> str:
    """Return what stands for a leaf that is no tensor: equal texts mean equal values."""
    text = repr(value)
    if len(text) <= LONGEST_VALUE:
        return text
    return f"{text[: LONGEST_VALUE // 2]}... sha256 {hashlib.sha256(text.encode(errors='replace')).hexdigest()}"


def flatten(value: Any, path: str = "output") -> list[tuple[str, Any]]:
    """Return the leaves of a result with their paths; None counts as a leaf, and dictionaries have no order."""
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: repr(item[0]))
        return [leaf for key, item in items for leaf in flatten(item, f"{path}[{key!r}]")]
    if isinstance(value, tuple | list):
        return [leaf for number, item in enumerate(value) for leaf in flatten(item, f"{path}[{number}]")]
    if fields := fields_of(value):
        return [leaf for name, item in fields.items() for leaf in flatten(item, f"{path}.{name}")]
    return [(path, value)]
