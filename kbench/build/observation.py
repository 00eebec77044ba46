"""Observation of the files that this process reads, the folders it lists and the programs it starts.

A process that runs a solution or a problem records what that code opens, which folders it lists, which libraries it
loads and which programs it starts. Python raises an audit event for each (PEP 578, `sys.addaudithook`); the kernel
counts the page faults of all children that ended (getrusage(2), RUSAGE_CHILDREN). The files become its manifest
(`kbench.build.manifest`), and a worker may start programs if these observations show that the solution needs it.
Standard library only.
"""

import contextlib
import errno
import functools
import os
import re
import resource
import shlex
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kbench.build.interpreter import PACKAGE, SOURCE_SUFFIXES

MAX_PATHS = 5_000
"""Paths that one process reports; further ones are dropped."""
MAX_PATH_BYTES = 4096
"""PATH_MAX of Linux."""
MAX_NEEDS = 20
CONTENT_FOLDERS = tuple(f"{PACKAGE / name}{os.sep}" for name in ("kernels", "problems", "solutions"))
"""Parts of this package that are content: a solution which uses them depends on them as on any file."""
IMPORTER = "<frozen importlib._bootstrap_external>"
"""File name of the code with which Python itself lists the folders of `sys.path`."""
LINKED = (".a", ".o", ".so")
"""Suffixes of what a linker may read in a folder that a flag names."""
OTHER_SUFFIXES = (".cxx", ".hh", ".hxx", ".inl", ".inc", ".s", ".ptx", ".pyx", ".rs", ".f90", ".sh", ".mk", ".cmake")
SOURCE_NAMES = frozenset({"Makefile", "makefile", "GNUmakefile", "CMakeLists.txt", "meson.build", "Cargo.toml"})
"""Suffixes and names of further files that a program may read, among those beside the files that it is started with."""
MAX_BELOW = 2_000
"""Entries of folders that are looked at for one start of a program, to limit time."""
FLAG = re.compile(r"-(?:isystem|iquote|include|-?[\w-]+=|[A-Za-z])|@")
"""Start of a word of a command line that goes on with a path."""
DATABASE = re.compile(r"^file:|\?.*$")
"""Parts of a URI of SQLite around its path."""
NATIVE_READERS = ("from_file", "_C.import_ir_module", "_C._aoti.AOTIModelPackageLoader.load_metadata_from_package")
"""Functions of torch that open files by themselves, without an audit event."""


def installed_folders() -> tuple[str, ...]:
    """Return where the interpreter, its packages, the system and this package lie: they belong to the toolchain."""
    places = {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, sys.exec_prefix, str(PACKAGE)}
    places |= {os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)}
    # Where `pip install --target` put packages that PYTHONPATH names.
    places |= {place for place in sys.path if place and any(Path(place).glob("*.dist-info"))}
    system = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys", "/dev", "/run", "/var/lib")
    found = {os.path.realpath(place) for place in places} | places | {*system}
    return tuple(sorted(f"{place.rstrip(os.sep)}{os.sep}" for place in found if place.strip(os.sep)))


class Observation:
    """Reads, listings and program starts of this process, from `begin` on.

    `home` is the folder of the file that is observed: what lies there counts even inside the interpreter's folders.
    """

    def __init__(self) -> None:
        self.may_start = False
        """True if programs may be started here; otherwise each start is recorded as a need for a build."""
        self.on_start: Callable[[], None] = lambda: None
        """Called before the first program starts, if it may."""
        self.home = ""
        self._installed = installed_folders()
        self._private: tuple[str, ...] = ()
        self._files: dict[str, None] = {}
        self._folders: dict[str, None] = {}
        self._has_started = False
        self._needs: list[str] = []
        self._written: set[str] = set()
        self._reported = (0, 0, 0)
        self._is_hooked = False
        self._is_on = False
        self._faults_apart = 0
        _report_native_readers()

    def begin(self, path: Path, private: Sequence[Path] = ()) -> None:
        """Observe from now on, for good: an audit hook cannot be removed. `private` folders do not count."""
        self.home = f"{path.absolute().parent}{os.sep}"
        self._private = tuple(f"{str(place).rstrip(os.sep)}{os.sep}" for place in private)
        if not self._is_hooked:
            sys.addaudithook(self._hear)
            self._is_hooked = True
            self._faults_apart = _children_faults()
        self._is_on = True

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Observe nothing inside a `with` block: the code that runs there is not what is observed."""
        faults, before = _children_faults(), self._is_on
        self._is_on = False
        try:
            yield
        finally:
            self._is_on = before
            self._faults_apart += _children_faults() - faults

    @property
    def started_programs(self) -> bool:
        """True if any process was started, except builds of extensions; also one without an audit event."""
        return self._has_started or _children_faults() != self._faults_apart or _has_children()

    def add_files(self, paths: Sequence[str]) -> None:
        """Add files that others report, such as ninja's dependency files."""
        for path in paths:
            self._add(self._files, path)

    def named(self, words: Sequence[str], start: str) -> list[str]:
        """Return the own files and folders that words of a command line name, alone, in a list or behind a flag."""
        listed = [_text(os.path.join(start, word[1:])).split() for word in words if word.startswith("@")]
        words = [*words, *(word for found in listed for word in found)]
        parts = [part for word in words for part in (word, FLAG.sub("", word, count=1), *re.split("[,=]", word)[1:])]
        places = {os.path.abspath(os.path.join(start, part)) for part in parts if part}
        return sorted(place for place in places if os.path.lexists(place) and self.counts(place + os.sep))

    def linked(self, flags: Sequence[str]) -> list[str]:
        """Return the own files that flags of a compiler or linker name, and libraries in folders that they name."""
        with self.apart():
            places = self.named([word for flag in flags for word in flag.split()], os.getcwd())
            libraries = (entry.path for place in places for entry in _entries(place) if entry.name.endswith(LINKED))
            return sorted({*filter(os.path.isfile, places), *libraries})

    def denied(self, error: BaseException) -> None:
        """Record a start that only its refusal shows: a call that the system-call filter answered with EPERM."""
        seen: BaseException | None = error
        while seen is not None and not self._needs:
            if isinstance(seen, PermissionError) and seen.errno == errno.EPERM and seen.filename is None:
                self.need(f"was denied: {seen}")
            seen = seen.__cause__ or seen.__context__

    def need(self, what: str) -> None:
        """Record in words what a build is needed for."""
        if len(self._needs) < MAX_NEEDS:
            self._needs.append(what[:200])

    def _start(self, what: str) -> None:
        first, self._has_started = not self._has_started, True
        if not self.may_start:
            self.need(what)
        elif first:
            self.on_start()

    def news(self) -> dict[str, list[str]] | None:
        """Return what has been observed since the last call, as a message; None for nothing."""
        counts = len(self._files), len(self._folders), len(self._needs)
        if counts == self._reported:
            return None
        files, folders, needs = self._reported
        self._reported = counts
        return {"files": [*self._files][files:], "folders": [*self._folders][folders:], "needs": self._needs[needs:]}

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event. Nothing is raised here: that would abort what is observed."""
        handler = HANDLERS.get(event)
        if handler is not None and self._is_on:
            with contextlib.suppress(Exception):
                handler(self, arguments)

    def _opened(self, arguments: tuple[Any, ...]) -> None:
        path, _, flags = arguments
        if not isinstance(path, str | bytes | os.PathLike):
            return
        if isinstance(flags, int) and flags & os.O_ACCMODE != os.O_RDONLY:
            self._written.add(os.path.abspath(os.fsdecode(path)))
        else:
            self._add(self._files, os.fsdecode(path))

    def _imported(self, arguments: tuple[Any, ...]) -> None:
        if isinstance(arguments[1], str):  # an extension module; sources are opened
            self._add(self._files, arguments[1])

    def _listed(self, arguments: tuple[Any, ...]) -> None:
        if sys._getframe(2).f_code.co_filename == IMPORTER:  # noqa: SLF001 - the only way to know who asks
            return
        path = arguments[0] if arguments and arguments[0] is not None else "."
        if isinstance(path, str | bytes | os.PathLike):
            self._add(self._folders, os.fsdecode(path))

    def _loaded(self, arguments: tuple[Any, ...]) -> None:
        if isinstance(arguments[0], str) and os.sep in arguments[0]:
            self._add(self._files, arguments[0])

    def _started(self, words: Sequence[Any], folder: Any) -> None:
        text = [os.fsdecode(word) for word in words if isinstance(word, str | bytes | os.PathLike)]
        start = os.fsdecode(folder) if isinstance(folder, str | bytes | os.PathLike) else os.getcwd()
        with self.apart():
            found = [*_readable(self.named([".", *text], start))]
        for path in found:
            self._add(self._files, path)
            self._add(self._folders, os.path.dirname(path))
        self._start("started " + shlex.join(text)[:150])

    def _popen(self, arguments: tuple[Any, ...]) -> None:
        executable, words, folder, _ = arguments
        if isinstance(words, str | bytes | os.PathLike):
            self._started([words], folder)
        elif len(words) == 3 and words[1] == "-c":  # a shell's command line
            self._started([words[0], *shlex.split(os.fsdecode(words[2]))], folder)
        else:
            self._started([*words] or [executable], folder)

    def _add(self, to: dict[str, None], path: str) -> None:
        place = os.path.abspath(path)
        if place in to or len(to) >= MAX_PATHS or len(os.fsencode(place)) > MAX_PATH_BYTES:
            return
        if place not in self._written and "__pycache__" not in place and self.counts(place + os.sep):
            to[place] = None

    def counts(self, path: str) -> bool:
        """Return whether a path is the solution's own: not of the toolchain, nor of this process's private folders."""
        if path.startswith(self._private) and not self.home.startswith(self._private):
            return False
        return path.startswith((self.home, *CONTENT_FOLDERS)) or not path.startswith((*self._installed, *self._private))


HANDLERS: dict[str, Callable[[Observation, tuple[Any, ...]], None]] = {
    "open": Observation._opened,  # noqa: SLF001 - the table is part of the class
    "import": Observation._imported,  # noqa: SLF001
    "os.listdir": Observation._listed,  # noqa: SLF001
    "os.scandir": Observation._listed,  # noqa: SLF001
    "ctypes.dlopen": Observation._loaded,  # noqa: SLF001
    "sqlite3.connect": lambda self, arguments: self.add_files([DATABASE.sub("", os.fsdecode(arguments[0]))]),
    "subprocess.Popen": Observation._popen,  # noqa: SLF001
    "os.system": lambda self, arguments: self._started(shlex.split(os.fsdecode(arguments[0])), None),
    "os.exec": lambda self, arguments: self._started(arguments[1], None),
    "os.posix_spawn": lambda self, arguments: self._started(arguments[1], None),
    **dict.fromkeys(("os.fork", "os.forkpty"), lambda self, _: self._start("started a process (fork)")),
}
"""Handler of each audit event (https://docs.python.org/3/library/audit_events.html); others are ignored."""


def _readable(places: Sequence[str]) -> Iterator[str]:
    """Yield the files that a command line names, and sources beside and below these: a program may read any of them."""
    yield from filter(os.path.isfile, places)
    folders = [place if os.path.isdir(place) else os.path.dirname(place) for place in places]
    left, seen, suffixes = MAX_BELOW, set[str](), (*SOURCE_SUFFIXES, *OTHER_SUFFIXES, *LINKED)
    while folders and left > 0:
        folder = folders.pop(0)
        if folder in seen:
            continue
        seen.add(folder)
        for entry in _entries(folder)[:left]:
            left -= 1
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.name in SOURCE_NAMES or entry.name.lower().endswith(suffixes):
                yield entry.path


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    return []


def _text(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(errors="replace")
    return ""


def _report_native_readers() -> None:
    """Let the functions of torch that open files by themselves raise the event of a file that is opened."""
    for path in NATIVE_READERS if "torch" in sys.modules else ():
        place, _, name = f"torch.{path}".rpartition(".")
        with contextlib.suppress(AttributeError):  # another version of torch lacks it
            owner = functools.reduce(getattr, place.split(".")[1:], sys.modules["torch"])
            if not isinstance(
                read := getattr(owner, name), functools.partial
            ):  # an earlier observation of this process did it
                setattr(owner, name, functools.partial(_reported, read))


def _reported(read: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
    for path in (*arguments, *keywords.values()):
        if isinstance(path, str | os.PathLike) and os.path.isfile(path):
            sys.audit("open", path, "r", os.O_RDONLY)
    return read(*arguments, **keywords)


def _children_faults() -> int:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def _has_children() -> bool:
    with contextlib.suppress(OSError):
        return any(Path(f"/proc/self/task/{task}/children").read_text() for task in os.listdir("/proc/self/task"))
    return False


def compiler_of(observed: Observation, caches: Sequence[Path]) -> str:
    """Return what a rehearsed solution compiles with during its calls; empty where it started no program.

    `graphs`: torch.compile; `kernels`: a language for kernels, which left something in one of its `caches`;
    `programs`: whatever it starts itself.
    """
    if not observed.started_programs:
        return ""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None and dynamo.counters["frames"]:
        return "graphs"
    return "kernels" if any(cache.is_dir() and any(cache.iterdir()) for cache in caches) else "programs"
