"""Of the whole suite: its order, the golden files, the process that runs are forks of, and the queue for the device."""

import functools
import gc
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import after_torch
import pytest
from commands import Done
from hypothesis import settings as examples

from kbench.catalog import script
from kbench.cli.app import main
from kbench.devices import admission
from kbench.host import nursery_process as nurseries
from kbench.process.child import Child

GOLDEN = Path(__file__).parent / "golden"

# Before torch is imported. On 2 busy cores its threads, which spin while they wait for one another, took 3.6 s for 400
# small products; with threads that sleep they took 0.1 s.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Collecting makes a million objects that all stay: on 2 cores the garbage collector took 6 of 15 s of each process.
gc.disable()


# Thirty find what a hundred do as often as a suite is run.
examples.register_profile("thirty", max_examples=30, deadline=None)
examples.load_profile("thirty")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: begun last, one test would keep one processor busy and leave the others idle."""
    items.sort(key=lambda item: -seconds(item))


def pytest_collection_finish() -> None:
    """Collect garbage again, but never look through what was collected here."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process that is free the next module, of one with slow tests the next test.

    What a fixture of a module has made is made by one of them. Not by `--dist loadgroup`: pytest-xdist 3.8 does not
    find the groups of pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class InOrder(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            module = nodeid.partition("::")[0]
            return module if stays_together(config.rootpath / module) else nodeid

    config.option.loadscopereorder = False
    return InOrder(config, log)


@functools.cache
def stays_together(module: Path) -> bool:
    """Return whether one process runs all tests of a module: they are quick, or share what a fixture makes once."""
    text = module.read_text(encoding="utf-8")
    return "mark.slow" not in text or 'scope="module"' in text


def seconds(item: pytest.Item) -> float:
    """Return about how long a test takes: what its marker says, 10 s for one that is slow, 0 for others."""
    marker = item.get_closest_marker("slow")
    return 0.0 if marker is None else float(marker.kwargs.get("seconds", 10))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Hold a text against `tests/golden/<name>`, or write that file with `--update-golden`."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
        assert path.is_file(), f"{path} is missing: run pytest with --update-golden, and read what it wrote"
        assert text + "\n" == path.read_text(encoding="utf-8")

    return check


@pytest.fixture(autouse=True)
def _no_script() -> Iterator[None]:
    """End each test without the arguments, import paths and modules of a problem that it loaded in this process."""
    yield
    script.leave()


@pytest.fixture(scope="session", autouse=True)
def _no_sync() -> Iterator[None]:
    """Do not wait for the disk in this process: no test ends the machine, and on a busy disk it is most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_nursery() -> Iterator[None]:
    """Let the runs of this process share what has imported torch, and end it with the last test."""
    with nurseries.kept():
        yield


@pytest.fixture(scope="session", autouse=True)
def _queue_of_its_own() -> Iterator[None]:
    """Let the processes of pytest-xdist not wait for one another: a test that times would stop all verdicts and builds.

    Times are then those of a busy machine, as they are beside tests that compile.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    place = admission.leases().parent
    with (
        tempfile.TemporaryDirectory(prefix="kbench-leases-", dir=place) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("KBENCH_LEASES", folder)
        yield


@pytest.fixture(scope="session")
def after_torch_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[after_torch.AfterTorch]:
    """Run code where torch is imported, and nothing else that a test may be about."""
    with after_torch.started(tmp_path_factory.mktemp("after_torch")) as one:
        yield one


@pytest.fixture
def kbench(capsys) -> Callable[..., Done]:
    """Invoke `kbench ARGUMENTS` and return exit code, stdout and stderr."""

    def invoke(*arguments: object) -> Done:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(code=int(caught.value.code), out=captured.out, err=captured.err)

    return invoke


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let a test build, and find nothing that others have built."""
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> Path:
    """A folder to be in, with a cache in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def born_of() -> Iterator[Child]:
    """What builders and judges are forks of, where a test starts these without a run."""
    with nurseries.nursery():
        yield nurseries.present()
