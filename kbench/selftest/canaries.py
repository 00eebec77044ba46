"""Canaries: what a contained process cannot have done: files that must not exist, ports not to be reached.

Effects are `file GLOB`, `changed PATH`, `process NAME`, `tcp PORT` and `udp PORT`; paths may begin with a place in
braces, for example `{home}`.
"""

import contextlib
import glob
import hashlib
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from kbench.core.errors import MachineError

PROCESS_GRACE_S = 1.0
"""Time within which a killed process leaves the process table."""
POLL_INTERVAL_S = 0.05


class Canaries:
    """Watches for the given effects from `__enter__` on; use as a context manager."""

    def __init__(self, effects: Iterable[str], places: Mapping[str, str]):
        self._places = dict(places)
        self._effects = sorted(set(effects))
        self._before: dict[str, str] = {}
        self._listeners: list[_Listener] = []

    def __enter__(self) -> Self:
        for effect in self._effects:
            kind, target = effect.split(maxsplit=1)
            if kind == "changed":
                self._before[effect] = _digest(target.format(**self._places))
            elif kind in {"tcp", "udp"}:
                self._listeners.append(_Listener(effect, kind, int(target)))
            elif kind == "file":
                self._remove(target)
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners:
            listener.close()

    def happened(self, effects: Iterable[str]) -> tuple[str, ...]:
        """Return those of `effects` that have happened, undone, so that the next check starts clean."""
        return tuple(effect for effect in effects if self._happened(effect))

    def _happened(self, effect: str) -> bool:
        kind, target = effect.split(maxsplit=1)
        match kind:
            case "file":
                return self._remove(target)
            case "changed":
                now = _digest(target.format(**self._places))
                before, self._before[effect] = self._before[effect], now
                return now != before
            case "process":
                return _outlives(target, PROCESS_GRACE_S)
        return any(listener.take() for listener in self._listeners if listener.effect == effect)

    def _remove(self, target: str) -> bool:
        """Remove the files that match; return whether there were any."""
        found = glob.glob(target.format(**self._places))  # noqa: PTH207 - the pattern is absolute
        for path in found:
            Path(path).unlink()
        return bool(found)


class _Listener:
    """A server on this host that remembers whether anybody spoke to it."""

    def __init__(self, effect: str, kind: str, port: int):
        self.effect = effect
        self._reached = threading.Event()
        family = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
        self._socket = socket.socket(socket.AF_INET, family)
        # Two selftests on one host share the port; a connection to either is an escape.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError as error:
            self._socket.close()
            raise MachineError(f"cannot listen on {kind} port {port}: {error.strerror}") from error
        if kind == "tcp":
            self._socket.listen()
        threading.Thread(target=self._serve, args=(kind,), daemon=True).start()

    def _serve(self, kind: str) -> None:
        while True:
            try:
                if kind == "tcp":
                    self._socket.accept()[0].close()
                else:
                    self._socket.recv(1)
            except OSError:
                return
            self._reached.set()

    def take(self) -> bool:
        reached = self._reached.is_set()
        self._reached.clear()
        return reached

    def close(self) -> None:
        with contextlib.suppress(OSError):  # not connected, as it should be
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def _outlives(name: str, grace_s: float) -> bool:
    deadline = time.monotonic() + grace_s
    while _is_running(name):
        if time.monotonic() > deadline:
            return True
        time.sleep(POLL_INTERVAL_S)
    return False


def _is_running(name: str) -> bool:
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended while the table was read
            if command.read_bytes().split(b"\0")[0] == name.encode():
                return True
    return False
