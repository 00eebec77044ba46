"""What runs of this process share: one nursery for those that overlap, kept where that is asked for."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from kbench.core.errors import InternalError
from kbench.host import nursery_process as nurseries
from kbench.process.child import JUDGE, Launch
from kbench.sandbox.rungs import Rung


class Started:
    """Stands in for a process."""

    every: ClassVar[list["Started"]] = []

    def __init__(self, launch: Launch):
        self.environment = launch.environment
        self.has_ended = False
        self.every.append(self)

    def kill(self) -> None:
        self.has_ended = True


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(nurseries, "Child", Started)
    monkeypatch.setattr(nurseries, "_shared", nurseries._Shared())
    monkeypatch.setattr(Started, "every", [])
    return


def test_it_lives_as_long_as_the_run() -> None:
    with nurseries.nursery():
        one = nurseries.present()
        assert not one.has_ended
    assert one.has_ended
    with pytest.raises(InternalError):
        nurseries.present()


def test_without_torch_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ModuleNotFoundError, match="torch") as found, nurseries.nursery():
        pass
    assert found.value.name == "torch"
    assert Started.every == []


def test_runs_that_overlap_share_one() -> None:
    ready, over = threading.Event(), threading.Event()

    def other() -> None:
        with nurseries.nursery():
            ready.set()
            over.wait(60)

    thread = threading.Thread(target=other)
    with nurseries.nursery():
        thread.start()
        ready.wait(60)
    assert [one.has_ended for one in Started.every] == [False], "the other run needs it"
    over.set()
    thread.join(60)
    assert [one.has_ended for one in Started.every] == [True]


def test_runs_after_one_another_share_one_that_is_kept() -> None:
    with nurseries.kept():
        for _ in range(3):
            with nurseries.nursery():
                nurseries.present()
        assert [one.has_ended for one in Started.every] == [False]
    assert [one.has_ended for one in Started.every] == [True]


def test_one_that_has_ended_is_replaced() -> None:
    with nurseries.nursery():
        nurseries.present().kill()
        assert not nurseries.present().has_ended
    assert [one.has_ended for one in Started.every] == [True, True]


def test_a_later_run_in_another_environment_has_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with nurseries.kept():
        with nurseries.nursery():
            first = nurseries.present()
        monkeypatch.setenv("LD_LIBRARY_PATH", "/elsewhere")
        with nurseries.nursery():
            second = nurseries.present()
            assert second.environment["LD_LIBRARY_PATH"] == "/elsewhere"
            assert (first.has_ended, second.has_ended) == (True, False)
            monkeypatch.setenv("LD_LIBRARY_PATH", "/later")
            with nurseries.nursery():
                assert nurseries.present() is second, "another run needs it"


def test_it_has_nothing_of_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "1")
    with nurseries.nursery():
        assert "SECRET_OF_THE_CALLER" not in nurseries.present().environment


def test_a_folder_on_the_python_path_is_meant_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It runs elsewhere than its forks do."""
    monkeypatch.setenv("PYTHONPATH", "mine")
    monkeypatch.chdir(tmp_path)
    with nurseries.nursery():
        assert nurseries.present().environment["PYTHONPATH"].endswith(f":{tmp_path}/mine")


def test_it_is_told_nothing_of_a_judge() -> None:
    launch = Launch(module=JUDGE, environment={"SECRET": "1"}, folder=Path("/secret"), rung=Rung.NONE)
    assert launch.order() == {"module": JUDGE}
