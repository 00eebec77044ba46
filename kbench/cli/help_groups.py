"""Groups of options in the help of commands that have many: options shown at once, and the rest."""

from collections.abc import Collection, Iterator

GROUPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "What to judge": (("self_", "pair", "case", "set_", "device"), ("entry",)),
    "What to do again": (("resume", "retry_failed", "only"), ()),
    "How far to go": (
        ("until", "exit_first", "max_failures"),
        ("lanes", "jobs", "executor", "address", "verify_limit", "time_limit"),
    ),
    "Is it right": (
        ("level", "accept", "backward"),
        ("require_custom", "sanitize", "allow_tf32", "eval_mode"),
    ),
    "How fast": (
        ("quick", "precision", "budget"),
        ("processes", "max_processes", "mode", "lock_clocks", "crosscheck"),
    ),
    "Limits": ((), ("import_timeout", "build_timeout", "call_timeout", "timeout", "isolation", "trusted")),
    "Output": (
        ("name", "json", "verbose"),
        ("quiet", "format", "color", "results", "no_save", "strict", "junit", "config"),
    ),
}
"""Parameters by the name that the command's record gives them; the second of a pair needs `--help-all`."""


def sections(names: Collection[str], *, everything: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield each group's title and its members of `names`; names without a group, such as `--help`, come last."""
    grouped = {name for first, rest in GROUPS.values() for name in (*first, *rest)}
    for title, (first, rest) in GROUPS.items():
        yield title, [name for name in (*first, *(rest if everything else ())) if name in names]
    yield "Help", [name for name in names if name not in grouped]
