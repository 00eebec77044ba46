"""How the corpus is read, and the corpus itself: complete, each attack in the catalogue and beside a look-alike."""

import ast
import fnmatch
import re
from pathlib import Path

import pytest

from kbench.core.errors import PluginError
from kbench.core.levels import PROPERTIES
from kbench.core.model import Status
from kbench.selftest.fixtures import CORPUS, Fixture, read_corpus, select

SHIPPED = read_corpus()


def test_an_unknown_status_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cheats"
    folder.mkdir()
    (folder / "odd.py").write_text('PROBLEM = "gelu"\nCLASS = "x"\nEXPECT = ("refuted",)\nclass ModelNew: ...\n')
    with pytest.raises(PluginError, match="refuted"):
        read_corpus(tmp_path)


def test_adding_a_fixture_is_adding_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "honest"
    folder.mkdir()
    (folder / "new.py").write_text('"""New."""\nPROBLEM = "gelu"\nCLASS = "plain"\nclass ModelNew: ...\n')
    (found,) = read_corpus(tmp_path)
    assert (found.name, found.honest, found.expect) == ("new", True, (Status.PASSED.value,))
    assert (found.source, found.entry, found.summary) == (Path("honest/new.py"), "ModelNew", "New.")


MANY = '''"""Two, and what they share."""
CLASS = "plain"
LEVEL = "a constant of the code"


class Shared: ...


class second(Shared):
    """The second of two,
    told in two lines.

    More."""

    PROBLEM = "gelu"
    DEVICES = ("cpu",)


class first(Shared):
    """The first."""

    PROBLEM = "relu"
    CLASS = "output"
'''


def test_each_class_that_names_its_problem_is_a_fixture(tmp_path: Path) -> None:
    (tmp_path / "cheats").mkdir()
    (tmp_path / "cheats" / "many.py").write_text(MANY)
    (tmp_path / "cheats" / "_shared.py").write_text("class Unseen: ...\n")
    first, second = read_corpus(tmp_path)
    assert (first.name, first.entry, first.problem, first.category) == ("first", "first", "relu", "output")
    assert (second.name, second.entry, second.problem, second.category) == ("second", "second", "gelu", "plain")
    assert (first.source, first.devices, first.level) == (Path("cheats/many.py"), ("cuda", "cpu"), "")
    assert (second.source, second.devices, second.summary) == (
        first.source,
        ("cpu",),
        "The second of two, told in two lines.",
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('PROBLEM = "gelu"', 'PROBLEM = input("?")', "class second has no literal `PROBLEM`"),
        ('CLASS = "plain"', "", "class second has no literal `CLASS`"),
        ('DEVICES = ("cpu",)', 'LEVEL = "high"', "class second expects `high`, which is not a level"),
    ],
)
def test_what_is_wrong_with_a_class_is_said(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "cheats").mkdir()
    (tmp_path / "cheats" / "many.py").write_text(MANY.replace(old, new))
    with pytest.raises(PluginError, match=message):
        read_corpus(tmp_path)


LINE = re.compile(r"\| ((?:harness|rigor) [\d.]+) \|[^|]+\|([^|]+)\|")


CATALOGUE = [
    (row, () if "`" in names else tuple(name.strip() for name in names.split(",")))
    for row, names in LINE.findall((CORPUS / "catalogue.md").read_text())
]
"""Row and fixtures of every line of the catalogue."""


def rows_of(one: Fixture) -> set[str]:
    """Return the catalogue's rows that a fixture says it stands for."""
    rows = set()
    for part in one.catalogue.split(";"):
        source, _, numbers = part.strip().partition(" ")
        rows |= {f"{source} {number.strip()}" for number in numbers.split(",")}
    return rows


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_there_are_as_many_honest_look_alikes_as_attacks(device: str) -> None:
    chosen = select(SHIPPED, device=device)
    honest = sum(one.honest for one in chosen)
    assert honest >= len(chosen) - honest


def test_every_honest_look_alike_must_pass_or_do_the_task_and_say_what_it_lacks() -> None:
    told = [one for one in SHIPPED if one.honest and one.expect != ("passed",)]
    assert all((one.expect, one.level) == (("below_level",), "task") and one.lacks for one in told)


def test_what_fixtures_lack_are_properties() -> None:
    for one in SHIPPED:
        assert all(fnmatch.filter(PROPERTIES, pattern) for pattern in one.lacks), one.name


def test_names_are_unique() -> None:
    names = [f.name for f in SHIPPED]
    assert len(names) == len(set(names))


def test_every_fixture_is_complete() -> None:
    for one in SHIPPED:
        assert (CORPUS / "problems" / f"{one.problem}.py").is_file(), one.name
        assert one.summary, one.name
        assert one.honest or one.catalogue, one.name
        assert "harness_error" not in one.expect, one.name
        assert {effect.split()[0] for effect in one.effects} <= {"file", "changed", "process", "tcp", "udp"}, one
        # An attack that may pass is held by something else, or the passing of those after it is the proof.
        held = one.speedup_below or one.findings or one.lacks or one.effects
        assert one.honest or "passed" not in one.expect or held or one.category in {"escape", "patching"}, one


def test_catalogue_has_every_known_row() -> None:
    known = {f"harness {n}" for n in range(1, 31)} | {f"rigor {n}" for n in range(1, 23)}
    assert known <= {row for row, _ in CATALOGUE}


def test_every_line_of_the_catalogue_is_stood_for() -> None:
    cheats = {one.name: rows_of(one) for one in SHIPPED if not one.honest}
    for row, names in CATALOGUE:
        assert names or row == "rigor 21", f"{row}: no fixture"  # the honest controls
        for name in names:
            assert row in cheats.get(name, ()), f"{name} does not say that it stands for {row}"


def test_what_cheats_look_for_in_messages_is_there() -> None:
    """A cheat that looks for a name which kbench has changed does nothing, and proves nothing."""
    package = CORPUS.parents[1]
    rooms = [path for room in ("judge", "worker", "process") for path in (package / room).rglob("*.py")]
    names = set(re.findall(r"\w+", "\n".join(path.read_text() for path in rooms)))
    asked = r'message(?:\.get\(|\[)"(\w+)"|hasattr\(\w+, "(_[a-z]\w*)"\)'
    for path in (CORPUS / "cheats").glob("*.py"):
        for found in re.findall(asked, path.read_text()):
            assert set(found) - {""} <= names, path.name


def test_every_cheat_is_in_the_catalogue() -> None:
    listed = {name for _, names in CATALOGUE for name in names}
    assert {one.name for one in SHIPPED if not one.honest} == listed


def test_what_has_no_fixture_has_a_reason() -> None:
    beyond = (CORPUS / "catalogue.md").read_text().partition("## Beyond any fixture")[2]
    lines = [line.split("|")[1:-1] for line in beyond.splitlines() if line.startswith("|")][2:]
    assert lines
    assert all(len(cells) == 2 and all(cell.strip() for cell in cells) for cells in lines)


def test_fixtures_are_parsed_by_this_python() -> None:
    for path in CORPUS.rglob("*.py"):
        ast.parse(path.read_text(), str(path))
