"""Run the command line inside the test's process, with fakes at the seam of the verbs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from kbench.cli.app import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch) -> None:
    """Keep tests away from this checkout's settings and results, and from the terminal's colours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))


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
def fake_run(monkeypatch) -> Callable[..., list]:
    """Let `run` yield these events, exceptions raised in their place; the calls' arguments are collected."""
    from kbench.run import session as run_verb

    calls: list = []

    def install(*stream: object) -> list:
        def run(problem, solutions, options) -> Iterator[object]:
            calls.append((problem, solutions, options))
            for event in stream:
                if isinstance(event, BaseException):
                    raise event
                yield event

        monkeypatch.setattr(run_verb, "run", run, raising=False)
        return calls

    return install
