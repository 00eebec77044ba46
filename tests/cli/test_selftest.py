"""`kbench selftest` that is ended early, and goes on: fixtures by a fake, everything else real."""

import csv
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from records import make_check

from kbench.core.errors import MachineError
from kbench.selftest import session
from kbench.selftest.checks import Checked

NAMES = ("assumes_contiguous_gelu", "broadcastable_shape", "drops_ragged_tail", "gelu_by_erf")
CONDITIONS = {"device": "a CPU", "isolation": "full", "torch": "2.13.0", "code": "abc"}


def checked(fixture) -> Checked:
    own = {name: getattr(fixture, name) for name in ("name", "honest", "category", "problem", "catalogue")}
    return make_check(**own, expected=fixture.expect, status=fixture.expect[0])


@pytest.fixture
def judging(monkeypatch) -> Callable[..., list[str]]:
    """Let fixtures end as expected, and the selftest with an exception after some; what is judged is collected."""
    monkeypatch.setattr(session, "conditions_on", lambda _device: CONDITIONS)

    def install(error: BaseException | None = None, after: int = 0) -> list[str]:
        judged: list[str] = []

        def judge(_bench, fixtures, **_how):
            for fixture in fixtures:
                if error is not None and len(judged) == after:
                    raise error
                judged.append(fixture.name)
                yield checked(fixture)

        monkeypatch.setattr(session.FixtureRunner, "judge", judge)
        return judged

    return install


def saved() -> tuple[Path, Path]:
    """Return the pair of files, which are all that there is."""
    table, document = sorted(Path("kept").iterdir())
    assert (table.suffix, document.suffix, table.stem) == (".csv", ".json", document.stem)
    return table, document


def hinted(text: str) -> list[str]:
    """Return the arguments of the command that a hint names."""
    return shlex.split(re.search("`kbench (.*)` goes on", text)[1])


NEW = ("selftest", *NAMES, "--devices", "cpu", "--save", "kept", "--jobs", "2")


def test_what_is_done_is_kept_and_the_command_that_is_told_goes_on(kbench, judging) -> None:
    judged = judging(KeyboardInterrupt(), after=3)
    done = kbench(*NEW)
    assert done.code == 130
    assert "selftest ended early: 3 of 4 fixtures judged" in done.out
    (journal,) = Path("kept").iterdir()
    assert f"error: interrupted; 3 of 4 fixtures are kept in {journal}" in done.err.replace("\n", " ")
    again = judging()
    rest = kbench(*hinted(done.err))
    assert rest.code == 0, rest.err
    assert (len(judged), sorted(judged + again)) == (3, sorted(NAMES))
    assert "4 fixtures on cpu, 3 of them kept" in rest.err
    assert re.search("selftest passed: .* 3 kept from earlier commands", rest.out)
    table, document = saved()
    assert table.name == journal.name.replace(".journal.jsonl", ".csv")
    told = json.loads(document.read_text())
    assert (told["fixtures"], told["kept"], len(told["results"])) == (4, 3, 4)
    with table.open() as lines:
        assert [one["name"] for one in csv.DictReader(lines)] == list(NAMES), "in the order of the corpus"


def test_files_of_a_resumed_selftest_are_those_of_one_that_was_not(kbench, judging) -> None:
    judging()
    assert kbench(*NEW).code == 0
    table, document = saved()
    whole = table.read_text(), json.loads(document.read_text())
    for path in (table, document):
        path.unlink()
    judging(KeyboardInterrupt(), after=2)
    done = kbench(*NEW)
    judging()
    kbench(*hinted(done.err))
    table, document = saved()
    told = json.loads(document.read_text())
    assert table.read_text() == whole[0]
    assert told | {"kept": 0, "elapsed_s": 0, "reason": ""} == whole[1] | {"elapsed_s": 0, "reason": ""}


def test_an_error_keeps_what_is_done_too_and_ends_with_its_own_code(kbench, judging) -> None:
    judging(MachineError("the device is gone", "reset it"), after=1)
    done = kbench(*NEW, "--json")
    told = done.document
    assert (done.code, told["status"], told["exit_code"]) == (3, "interrupted", 3)
    assert told["reason"].startswith("the device is gone; 1 of 4 fixtures are kept in kept/")
    assert told["hint"].startswith("reset it; `kbench selftest --resume kept/")
    assert len(told["results"]) == 1


def test_without_save_a_summary_is_printed_and_how_to_keep_more_is_told(kbench, judging) -> None:
    judging(KeyboardInterrupt(), after=2)
    done = kbench("selftest", *NAMES, "--device", "cpu")  # another name of `--devices`
    assert (done.code, list(Path().glob("*.jsonl"))) == (130, [])
    assert "selftest ended early: 2 of 4 fixtures judged" in done.out
    assert "hint: `--save DIR` keeps what is done" in done.err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--resume", "NAME", "gelu_by_erf"), "leave out the names"),
        (("--resume", "NAME", "--device", "cuda"), "no CUDA device found"),
        (("--resume", "nothing", "--save", "kept"), "left to resume in kept: 2"),
    ],
)
def test_what_cannot_be_resumed_is_said(kbench, judging, monkeypatch, more, told) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    judging(KeyboardInterrupt(), after=1)
    kbench(*NEW)
    (journal,) = Path("kept").iterdir()
    done = kbench("selftest", *(str(journal) if word == "NAME" else word for word in more))
    assert done.code in {2, 3}
    assert told in done.err
