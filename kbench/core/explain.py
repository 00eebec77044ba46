"""Meaning of every code and word that kbench prints, and what to do about a code: the data of `kbench explain`."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from kbench.core.levels import PROPERTIES, TEXTS

CodeKind = Literal["status", "diagnosis", "property", "finding", "flag", "verdict", "bottleneck", "word"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One code or word: what it means, and what to type or change; empty for a word."""

    code: str
    kind: CodeKind
    meaning: str
    fix: str


_PROPERTIES = {code: (one.meaning, one.fix) for code, one in PROPERTIES.items()}
_WORDS = json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8"))
_TEXTS = TEXTS | {"property": _PROPERTIES, "word": {word: (meaning, "") for word, meaning in _WORDS.items()}}
EXPLANATIONS = {
    code.lower().replace(" ", "_").replace("-", "_"): Explanation(code=code, kind=kind, meaning=meaning, fix=fix)
    for kind in get_args(CodeKind)
    for code, (meaning, fix) in _TEXTS[kind].items()
}
"""Explanations by code in small letters. For a code of two kinds, the later kind."""

CAUSES = {"attestation_weak": frozenset({"interference", "throttled", "unstable", "drift", "resolution_limited"})}
"""Flags that may cause another flag: if a row has both, the advice of the cause is enough."""


def explain(code: str) -> Explanation | None:
    """Find the explanation of a code; case, hyphens, its parameter, and the units of a column's head do not matter."""
    name = re.sub(r"^[\d.]+_%_|_[nµm]?s$", "", code.strip().lower().replace("-", "_").replace(" ", "_"))
    without_number = name.rstrip("0123456789").rstrip("_")
    family = "skipped_inputs" if name.startswith("skipped_") else without_number
    return EXPLANATIONS.get(name) or EXPLANATIONS.get(family)
