"""Run the command line inside the test's process, with fakes at the seam of the verbs."""

from collections.abc import Callable, Iterator

import pytest


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch) -> None:
    """Keep tests away from this checkout's settings and results, and from the terminal's colours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def refused(kbench) -> Callable[..., tuple[int, str]]:
    """Invoke a command that is refused, for people and for programs; return its exit code and what people are told."""

    def invoke(*arguments: object) -> tuple[int, str]:
        people, programs = kbench(*arguments), kbench(*arguments, "--json")
        document = programs.document
        assert document["command"] == arguments[0]
        assert people.code == programs.code == document["exit_code"]
        assert (document["status"], people.out) == ("error", "")
        assert people.err.splitlines()[-1].startswith(("error: ", "hint: "))
        assert document["reason"] in people.err
        return people.code, people.err

    return invoke


@pytest.fixture
def fake_run(monkeypatch) -> Callable[..., list]:
    """Let `run` yield these events, exceptions raised in their place; the calls' arguments are collected."""
    from kbench.engine import run as run_verb

    calls: list = []

    def install(*stream: object) -> list:
        def run(problem, solutions, options, **_kept) -> Iterator[object]:
            calls.append((problem, solutions, options))
            for event in stream:
                if isinstance(event, BaseException):
                    raise event
                yield event

        monkeypatch.setattr(run_verb, "run", run, raising=False)
        return calls

    return install
