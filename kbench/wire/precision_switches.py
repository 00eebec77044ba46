"""The precision switches of torch that a process can set for itself: what stands where, and what was changed.

A worker tells the judge of its own, and can only excuse a wrong value with it.
"""

import re
from collections.abc import Mapping
from typing import Any

SWITCHES = (
    "torch.backends.cuda.matmul.allow_tf32",
    "torch.backends.cudnn.allow_tf32",
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
    "torch.backends.cuda.matmul.allow_fp16_accumulation",
    "torch.backends.fp32_precision",
    "torch.backends.cuda.matmul.fp32_precision",
    "torch.backends.cudnn.fp32_precision",
    "torch.backends.cudnn.conv.fp32_precision",
    "torch.backends.cudnn.rnn.fp32_precision",
    "torch.backends.mkldnn.fp32_precision",
    "torch.backends.mkldnn.matmul.fp32_precision",
    "torch.backends.mkldnn.conv.fp32_precision",
    "torch.get_float32_matmul_precision",
    "torch.get_default_dtype",
)
"""Names below torch; of functions what they return. Not every version has all of them."""

AUTOCAST = "torch.autocast"
"""Begins the name of what is cast on a device."""
TOLD = re.compile(r"[\w.]{1,80} = [\w.]{1,30}")
"""Form in which a worker reports a switch."""
DERIVED = "fp32_precision"
"""Suffix of the newer switches, which follow the older ones; a change is reported by the older name."""


def settings() -> dict[str, str]:
    """Return what each switch of this process stands at, those that this torch has."""
    import torch

    found = {name: str(value) for name in SWITCHES if (value := _value(name)) is not None}
    found |= {f"{AUTOCAST}.{device}": str(torch.is_autocast_enabled(device)) for device in ("cpu", "cuda")}
    # Whoever sets a switch and sets it back leaves `ieee`, which is what `none` is by default.
    return {name: "none" if value == "ieee" else value for name, value in found.items()}


def _value(name: str) -> Any:
    import torch

    found: Any = torch
    try:
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        return found() if callable(found) else found
    except (AttributeError, RuntimeError, AssertionError):
        return None  # this version has none, or old and new switches contradict each other


def changed(before: Mapping[str, str]) -> list[str]:
    """Return the switches that stand elsewhere than before, as `name = value`."""
    found = {name: value for name, value in settings().items() if before.get(name, value) != value}
    named = {name: value for name, value in found.items() if not name.endswith(DERIVED)}
    return [f"{name} = {value}" for name, value in (named or found).items()]


def named(told: Any) -> list[str]:
    """Return of what a worker tells what may stand in a reason: known switches, with short values."""
    if not isinstance(told, list):
        return []
    texts = [text for text in told[: len(SWITCHES)] if isinstance(text, str) and TOLD.fullmatch(text)]
    return [text for text in texts if text.partition(" = ")[0] in settings()]
