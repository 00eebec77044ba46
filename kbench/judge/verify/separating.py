"""Which parameters change together: what is stale where only one of two changes is seen for any two."""

import itertools
import math
import secrets
from collections.abc import Collection


def separating(names: Collection[str]) -> list[set[str]]:
    """Return sets of names such that of any two, one set has the first and not the second.

    Each name gets a secret code of m bits, half of them ones, and set k has the names whose k-th bit is one: no code
    contains another. That is a completely separating system, and no smaller one exists (Sperner 1928; Spencer 1970).
    Of 2 names 2 sets come, of 6 names 4, of 70 names 8. One name needs none.
    """
    bits = next(m for m in itertools.count() if math.comb(m, m // 2) >= len(names))
    codes = list(itertools.combinations(range(bits), bits // 2))
    coded = list(zip(names, secrets.SystemRandom().sample(codes, len(names)), strict=True))
    return [{name for name, code in coded if bit in code} for bit in range(bits)]
