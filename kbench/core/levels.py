"""Three levels of being right, the properties that each requires, and the consequences of missing ones."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from kbench.core.errors import UsageError, did_you_mean

TEXTS: dict[str, Any] = json.loads(Path(__file__).with_name("codes.json").read_text(encoding="utf-8"))
"""[meaning, what to do] by kind and code; properties by level have [title, what to do], the foremost first."""


MOST_SHOWN = 3
"""Largest number of codes in one cell of a table or one sentence."""


class Level(StrEnum):
    """Conditions under which a solution is right; each level includes the levels before it."""

    TASK = "task"
    MODULE = "module"
    GENERAL = "general"

    @property
    def rank(self) -> int:
        """Place in the order, from 0."""
        return list(Level).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """Something that a level requires beyond the level below it."""

    level: Level
    title: str
    """Fault of a solution without it: begins in lower case and has no full stop."""
    fix: str

    @property
    def meaning(self) -> str:
        """The title as a sentence, with the level that lacks it."""
        return f"The solution is {self.title}: it does not hold the level `{self.level}`."


PROPERTIES: dict[str, Property] = {
    code: Property(level=Level(level), title=title, fix=fix)
    for level, entries in TEXTS["property"].items()
    for code, (title, fix) in entries.items()
}
"""Properties by the code of their absence, as in `lacks`."""
WEIGHT_CODES = frozenset({"frozen_weights", "unmatched_weights"})
"""Codes of solutions whose parameters cannot change after construction: these keep the constructor's values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Levels of one solution and case in one run."""

    level: Level | None = None
    """The highest level that it holds; None if it holds none, or if the row does not say."""
    lacks: Sequence[str] = ()
    required: Level | None = None
    accepted: Collection[str] = ()

    @property
    def counted(self) -> Level | None:
        """The level that it holds if the accepted properties are excused."""
        if self.level is None or self.required is Level.TASK:
            return self.level  # the others were not tried
        return max(self.level, held(self.lacks, self.accepted), key=lambda level: level.rank)


UNKNOWN = Standing()


def held(lacks: Collection[str], accepted: Collection[str] = ()) -> Level:
    """Return the highest level of a solution that does the task, with the accepted properties excused."""
    missing = [PROPERTIES[code].level.rank for code in lacks if code not in accepted]
    return list(Level)[min(missing) - 1] if missing else Level.GENERAL


def blocking(lacks: Collection[str], required: Level, accepted: Collection[str] = ()) -> tuple[str, ...]:
    """Return the codes that keep a solution below the required level, sorted."""
    return tuple(
        sorted(code for code in lacks if code not in accepted and PROPERTIES[code].level.rank <= required.rank)
    )


def shortfall(lacks: Collection[str], required: Level, accepted: Collection[str] = (), why: str = "") -> str:
    """Return why a solution is below a level (`why`: of the foremost code) and what to type; empty if it is not."""
    codes = blocking(lacks, required, accepted)
    if not codes:
        return ""
    level = held(lacks, accepted)
    first = foremost(codes)
    others = [code for code in codes if code != first]
    also = f"; it lacks {listed(others)}, too" if others else ""
    title = PROPERTIES[first].title
    because = f": {why}" if why not in {"", title} else ""
    accept = " ".join(f"--accept {code}" for code in codes)
    ways = f"`--level {level}`" + (f" or `{accept}`" if len(codes) <= MOST_SHOWN else "")
    return (
        f"holds the level `{level}`, and `{required}` is required: {title} ({first}){because}{also}; "
        f"if that is enough, add {ways}"
    )


def foremost(codes: Collection[str]) -> str:
    """Return the code to name first: of the lowest level, in the order of the table."""
    return next(code for code in PROPERTIES if code in codes)


def lost(old: Standing, new: Standing) -> tuple[str, ...]:
    """Return the codes, sorted, that make the new side's level lower: neither accepted nor lacked before."""
    if old.counted is None:
        return ()
    return blocking(set(new.lacks) - set(old.lacks), old.counted, new.accepted)


def untried(old: Standing, new: Standing) -> bool:
    """Return whether the new side was tried at `task` only while the old one holds more."""
    if old.counted is None or new.level is None:
        return False
    return new.required is Level.TASK and old.counted.rank > Level.TASK.rank


def level_in_words(level: Level | str | None, lacks: Sequence[str], accepted: Collection[str] = ()) -> str:
    """Write a level for one cell of a table: `general`, or `module; not: channels_last, alignment`, foremost first."""
    if not level:
        return ""
    foremost_first = sorted(lacks, key=lambda code: PROPERTIES[code].level.rank)
    named = [f"{code} (accepted)" if code in accepted else code for code in foremost_first]
    return f"{level}; not: {listed(named)}" if named else str(level)


def listed(codes: Sequence[str]) -> str:
    """Write a few codes, and the number of the others."""
    more = len(codes) - MOST_SHOWN
    return ", ".join(codes[:MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


def unknown_word(level: str, codes: str) -> str | None:
    """Return the first unknown word in a row's level and codes; None if all are known."""
    levels = [] if level in {"", *Level} else [level]
    return next(iter([*levels, *(code for code in codes.split() if code not in PROPERTIES)]), None)


def require_codes(codes: Collection[str]) -> tuple[str, ...]:
    """Return accepted codes, each once, sorted. Raises UsageError for an unknown property."""
    for code in codes:
        if code not in PROPERTIES:
            listing = "`kbench explain` lists them: those of kind `property`"
            hint = did_you_mean(code, list(PROPERTIES), listing=listing, cutoff=0.5)
            raise UsageError(f"`{code}` is not a property of a level, so it cannot be accepted", hint)
    return tuple(sorted(set(codes)))
