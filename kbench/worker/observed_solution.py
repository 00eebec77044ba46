"""Observation of a solution in its worker: the files it reads, the programs it starts, the extensions it builds."""

import contextlib
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kbench.build import cache
from kbench.build.extensions import ExtensionBuilds
from kbench.build.observation import Observation, compiler_of
from kbench.process.channel import Message


class ObservedSolution:
    """The observation of this process, and the hooks on extensions."""

    def __init__(self) -> None:
        self._observation = Observation()
        self._builds = ExtensionBuilds(self._observation, None)
        self._private: Sequence[Path] = ()

    def set_up(self, private: Sequence[Path], *, may_start: bool) -> None:
        """Take note of the folders that are this process's own, and of its right to start programs."""
        self._private, self._observation.may_start = private, may_start

    def begin(self, message: Message, announce: Callable[[str], None] | None = None) -> None:
        """Record from now on what the solution of a message reads and starts; extensions compile with `announce`."""
        import kbench.kernels  # noqa: F401 - not the solution's choice

        if not self._observation.home:
            self._observation.begin(Path(message["path"]), self._private)
        if announce is not None and not self._builds.may_compile:
            self._builds = ExtensionBuilds(self._observation, partial(announce, "extension"))
            self._observation.on_start = partial(announce, "program")
        self._builds.install()

    def problem_code(self, message: Message) -> contextlib.AbstractContextManager[None]:
        """Run the problem's code inside a `with` block: what it reads is no part of a solution of its own."""
        return contextlib.nullcontext() if message["builtin"] else self._observation.apart()

    def denied(self, error: BaseException) -> None:
        """Record a denied call that the solution ended with."""
        self._observation.denied(error)

    def news(self) -> Message | None:
        """Return what was observed since the last call; None for nothing."""
        return self._observation.news()

    def compiled(self) -> Message:
        """Return what was compiled so far: extensions, and with what else, for which it has to start programs."""
        caches = [Path(os.environ[name]) for name in cache.LANGUAGE_CACHES if name in os.environ]
        return {"extensions": self._builds.compiled, "compiler": compiler_of(self._observation, caches)}
