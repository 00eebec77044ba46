"""kbench: is a GPU kernel right, how fast is it, and how far is it from the hardware's limit."""

import importlib
from typing import TYPE_CHECKING, Any

from kbench.core.version import __version__ as __version__

if TYPE_CHECKING:
    from kbench.api.evaluation import EvaluationResult as EvaluationResult
    from kbench.api.judge import Judge as Judge
    from kbench.api.judge import evaluate as evaluate
    from kbench.api.judge import evaluate_many as evaluate_many
    from kbench.core.errors import KbenchError as KbenchError
    from kbench.core.model import Failed as Failed
    from kbench.core.model import Passed as Passed

_PLACES = {
    "EvaluationResult": "kbench.api.evaluation",
    **dict.fromkeys(("Judge", "evaluate", "evaluate_many"), "kbench.api.judge"),
    **dict.fromkeys(("Failed", "Passed"), "kbench.core.model"),
    "KbenchError": "kbench.core.errors",
}
"""Imported where they are used: `import kbench` is a part of every start of the command line."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'kbench' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
