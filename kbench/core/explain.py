"""What every code that kbench prints means, and what to do about it: the data behind `kbench explain`.

`codes.json` has the texts, [meaning, what to do] by kind and code. Those of properties are in `levels.PROPERTIES`.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from kbench.core.levels import PROPERTIES

CodeKind = Literal["status", "diagnosis", "property", "finding", "flag", "verdict", "bottleneck", "check"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One code: what it means, and what to type or change."""

    code: str
    kind: CodeKind
    meaning: str
    fix: str


TEXTS: dict[CodeKind, dict[str, tuple[str, str]]] = {
    **json.loads(Path(__file__).with_name("codes.json").read_text(encoding="utf-8")),
    "property": {code: (one.meaning, one.fix) for code, one in PROPERTIES.items()},
}
EXPLANATIONS = {
    code: Explanation(code=code, kind=kind, meaning=meaning, fix=fix)
    for kind in get_args(CodeKind)
    for code, (meaning, fix) in TEXTS[kind].items()
}
"""By code; of a code of two kinds the later one.

Codes with a parameter, such as `mean_offset_30` and `skipped_negated`, have one entry for all.
"""


def explain(code: str) -> Explanation | None:
    """Find the explanation of a code; case, hyphens and the parameter of a code do not matter."""
    name = code.strip().lower().replace("-", "_").replace(" ", "_")
    without_number = name.rstrip("0123456789").rstrip("_")
    family = "skipped_inputs" if name.startswith("skipped_") else without_number
    return EXPLANATIONS.get(name) or EXPLANATIONS.get(family)
