"""What codes mean: the texts of `codes.json`, by kind and code."""

import json
from pathlib import Path
from typing import Any

TEXTS: dict[str, Any] = json.loads(Path(__file__).with_name("codes.json").read_text(encoding="utf-8"))
"""[meaning, what to do] of each code; of properties by level [title, what to do], in the order of naming them."""
