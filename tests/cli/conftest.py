"""Run the command line inside the test's process, with fakes at the seam of the verbs."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kbench.cli.app import main

COMMON = {
    "schema",
    "command",
    "kbench_version",
    "status",
    "reason",
    "hint",
    "exit_code",
    "findings",
    "speedup",
    "results",
}
"""Keys of every document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """What `--json` printed: it has the keys of every document, and no NaN."""
        found = json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in a document"))
        assert set(found) >= COMMON
        return found

    @property
    def rows(self) -> list[dict[str, str]]:
        """What `--format csv` printed."""
        return [*csv.DictReader(io.StringIO(self.out))]


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
