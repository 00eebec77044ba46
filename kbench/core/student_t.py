"""Student's t distribution, central and noncentral, from one integral; the tests compare it with scipy."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

_erfc = np.frompyfunc(math.erfc, 1, 1)


def t_cdf(value: float, freedom: float, noncentrality: float = 0.0) -> float:
    """Distribution function of Student's t, also noncentral: the mean of Phi(x S - nc) over S = chi / sqrt(freedom).

    Over log S the integrand falls off on both sides, and the trapezoid rule converges geometrically.
    """
    root = math.sqrt(freedom)
    lower, upper = -(36.0 / freedom + 9.0 / root), math.log1p(12.0 / root)
    grid = np.linspace(lower, upper, 801)
    scale = np.exp(grid)
    log_density = freedom * (grid - scale**2 / 2)
    log_constant = math.log(2) + freedom / 2 * math.log(freedom / 2) - math.lgamma(freedom / 2)
    weights = np.exp(log_density + log_constant) * (grid[1] - grid[0])
    phi = np.asarray(_erfc((noncentrality - value * scale) / math.sqrt(2)), dtype=np.float64) / 2
    return float(weights @ phi)


@lru_cache(maxsize=4096)
def t_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t with `freedom` degrees of freedom, `probability` within (0, 1)."""
    if not 0 < probability < 1:
        raise ValueError(f"a probability lies between 0 and 1, not at {probability}")
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -t_quantile(1 - probability, freedom)
    upper = 2.0
    while t_cdf(upper, freedom) < probability:
        upper *= 2
    return bisect(lambda x: t_cdf(x, freedom) - probability, 0.0, upper)


def bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """Find the root of a monotone function between `low` and `high`, to the last bits of a double."""
    sign_low = function(low) > 0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in {low, high} or high - low < 1e-12 * abs(middle):
            break
        if (function(middle) > 0) == sign_low:
            low = middle
        else:
            high = middle
    return (low + high) / 2
