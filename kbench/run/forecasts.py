"""Forecasts of cases before anything is allocated."""

from collections.abc import Sequence

from kbench.core.events import RunOptions
from kbench.core.forecast import Forecast
from kbench.core.model import Case
from kbench.devices.selection import DeviceChoice
from kbench.storage.durations import last_duration_s


def forecasts(
    cases: Sequence[Case],
    sizes: Sequence[int | None],
    options: RunOptions,
    *,
    problem_sha256: str,
    device: DeviceChoice,
) -> list[Forecast]:
    """Return the forecast of each case: its size, and the time of earlier verdicts on this device."""

    def took_s(case: Case) -> float | None:
        return last_duration_s(
            options.results_dir,
            problem_sha256=problem_sha256,
            overrides=case.overrides,
            device=device.uuid,
            timed=not options.verify_only,
        )

    return [
        Forecast(case=case.name, device=device.kind, call_bytes=size, took_s=took_s(case))
        for case, size in zip(cases, sizes, strict=True)
    ]
