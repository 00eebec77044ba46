"""Plugin files read from several threads, as a server does."""

import ast
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kbench.catalog import source

PROBLEM = Path(source.__file__).parents[1] / "problems/group_norm.py"


def test_threads_parse_one_after_the_other(monkeypatch) -> None:
    """Two at once fail rarely, and only where the garbage collector runs finalizers: so this looks for two at once."""
    parse, inside, most = ast.parse, [], []

    def watched(*arguments: str, **options: str) -> ast.AST:
        inside.append(arguments)
        time.sleep(0.01)
        most.append(len(inside))
        try:
            return parse(*arguments, **options)
        finally:
            inside.pop()

    monkeypatch.setattr(ast, "parse", watched)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: source.parse(PROBLEM), range(8)))
    assert len(found) == 8
    assert max(most) == 1
