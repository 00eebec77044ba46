"""Meaning of every code that kbench prints, and what to do about it: the data of `kbench explain`."""

from dataclasses import dataclass
from typing import Literal, get_args

from kbench.core.levels import PROPERTIES, TEXTS

CodeKind = Literal["status", "diagnosis", "property", "finding", "flag", "verdict", "bottleneck"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One code: what it means, and what to type or change."""

    code: str
    kind: CodeKind
    meaning: str
    fix: str


_PROPERTIES = {code: (one.meaning, one.fix) for code, one in PROPERTIES.items()}
EXPLANATIONS = {
    code.lower(): Explanation(code=code, kind=kind, meaning=meaning, fix=fix)
    for kind in get_args(CodeKind)
    for code, (meaning, fix) in (_PROPERTIES if kind == "property" else TEXTS[kind]).items()
}
"""Explanations by code in small letters. For a code of two kinds, the later kind."""

_DISTURBED = ("interference", "throttled", "unstable", "bimodal", "drift", "outliers")
CAUSES = {"attestation_weak": frozenset({*_DISTURBED, "resolution_limited"})}
"""Flags that may cause another flag: if a row has both, the advice of the cause is enough."""


def explain(code: str) -> Explanation | None:
    """Find the explanation of a code; case, hyphens and the parameter of a code do not matter."""
    name = code.strip().lower().replace("-", "_").replace(" ", "_")
    without_number = name.rstrip("0123456789").rstrip("_")
    family = "skipped_inputs" if name.startswith("skipped_") else without_number
    return EXPLANATIONS.get(name) or EXPLANATIONS.get(family)
