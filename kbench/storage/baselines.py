"""Baselines: runs that others are compared with, in `<root>/<gpu>/<name>/<problem>.csv` with their samples, in git.

The gate compares with `main`. `<root>/<gpu>/accepted.csv` lists accepted slow-downs, each until a date.
"""

import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from datetime import date
from pathlib import Path

from kbench.core.errors import MachineError, ResultsError, UsageError, did_you_mean
from kbench.core.model import ResultRow, Status
from kbench.storage import csvfile
from kbench.storage.results import LONGEST_NAME, CaseKey, Run, read_run
from kbench.storage.rows import contradiction
from kbench.storage.runfiles import SAMPLES_SUFFIX, samples_path

ROOT = Path("results/baselines")
MAIN = "main"
MOST_SLOWDOWN = 1000
"""Chosen: the largest slow-down that can be accepted; 1 is twice the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """An intended slow-down: at most `up_to`, and not after `until`."""

    problem: str
    solution: str
    case: str
    up_to: float
    """Share by which the case may be slower than its baseline: 0.08 is 8 %."""
    until: date
    reason: str


def gpu_folder(gpu_name: str) -> str:
    """Folder name of a device model: `NVIDIA H200` -> `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", gpu_name.lower()).strip("-") or "unknown"


def baseline_path(run: Run, name: str = MAIN, root: Path = ROOT) -> Path:
    """Return the path of a run's baseline. Raises UsageError for a name, or a problem's, that does not fit a path."""
    row = run.rows[0]
    stem = Path(row.problem).stem
    if len(stem.encode()) > LONGEST_NAME:
        raise UsageError(f"{run.name}: `{stem[:40]}…` is too long for a baseline's file name", "rename the problem")
    if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}", name):
        raise UsageError(f"`{name}` is not a valid name of a baseline", "use letters, digits, dots and dashes")
    return root / gpu_folder(row.gpu_name) / name / f"{stem}.csv"


def set_baseline(run: Run, name: str = MAIN, root: Path = ROOT) -> Path:
    """Make a run the baseline of its problem on its device model. Raises UsageError for an unfit run, MachineError."""
    problems = {row.problem for row in run.rows}
    if len(problems) > 1:
        raise UsageError(f"{run.name} holds {len(problems)} problems: {', '.join(sorted(problems))}", "take one")
    if not any(row.status == Status.PASSED and row.samples_sha256 for row in run.rows):
        message = f"{run.name} cannot be a baseline: nothing in it passed and was timed"
        raise UsageError(message, "gate a run that `kbench run PROBLEM` has timed")
    require_unedited(run)
    path = baseline_path(run, name, root)
    csvfile.make_folder(path)
    try:
        rows, samples = (file.read_text(encoding="utf-8") for file in (run.path, samples_path(run.path)))
    except OSError as error:
        raise csvfile.write_failed(path, error) from error
    # The samples first, as a run is written: between the two, the old rows refuse the new samples, loudly.
    csvfile.replace_file(samples_path(path), samples)
    csvfile.replace_file(path, rows)
    return path


def require_unedited(run: Run) -> Run:
    """Return a run whose figures follow from its samples. Raises ResultsError naming the cell that was changed."""
    for key, rows in run.by_case().items():
        what = contradiction(rows, {row.process: run.samples.get((*key, row.process), ()) for row in rows})
        if what is not None:
            raise csvfile.refuse(run.path, f"was edited: {'/'.join(key)}, {what}")
    return run


def load_baseline(run: Run, name: str = MAIN, root: Path = ROOT) -> Run:
    """Read a run's baseline: by name, or by the path of a CSV.

    Raises MachineError if there is none for this device model and problem, ResultsError if it was edited or cut off.
    """
    named = name.endswith(".csv") and Path(name).is_file()
    path = Path(name) if named else baseline_path(run, name, root)
    if path.is_file():
        return require_unedited(read_run(path))
    others = sorted({path.parts[-2] for path in list_baselines(root)})
    way_out = f"`kbench baseline set {run.name}` makes this run the baseline"
    raise MachineError(
        f"no baseline `{name}` of {run.rows[0].problem} on {run.rows[0].gpu_name}",
        way_out if name in others else did_you_mean(name, others, listing=way_out),
    )


def list_baselines(root: Path = ROOT) -> dict[Path, list[ResultRow]]:
    """Return the rows of every baseline under `root`. Raises ResultsError for one that was edited or is truncated."""
    paths = (path for path in sorted(root.glob("*/*/*.csv")) if not path.name.endswith(SAMPLES_SUFFIX))
    return {path: [*read_run(path).rows] for path in paths}


_COLUMNS = tuple(field.name for field in fields(Acceptance))


def accept(acceptance: Acceptance, gpu_name: str, root: Path = ROOT) -> Path:
    """Add an acceptance, replacing an earlier one of its case. Raises UsageError (incomplete), MachineError."""
    _require_complete(acceptance)
    path = _accepted_path(gpu_name, root)
    kept = [known for known in load_acceptances(gpu_name, root) if _key(known) != _key(acceptance)]
    csvfile.make_folder(path)
    csvfile.replace_file(path, csvfile.table(_COLUMNS, map(astuple, sorted([*kept, acceptance], key=_key))))
    return path


def load_acceptances(gpu_name: str, root: Path = ROOT) -> tuple[Acceptance, ...]:
    """Read the acceptances of a device model, expired ones included.

    Raises ResultsError for a file with other columns, a value that `accept` would not write, or one case twice.
    """
    path = _accepted_path(gpu_name, root)
    if not path.is_file():
        return ()
    try:
        found: dict[CaseKey, Acceptance] = {}
        for number, cells in csvfile.read_table(path, _COLUMNS):
            one = csvfile.record(path, number, _COLUMNS, cells, Acceptance)
            try:
                _require_complete(one)
            except UsageError as error:
                raise csvfile.refuse(path, f"is wrong in line {number}: {error.message}") from None
            if _key(one) in found:
                raise csvfile.refuse(path, f"accepts {'/'.join(_key(one))} a second time in line {number}")
            found[_key(one)] = one
    except ResultsError as error:
        hint = f"correct that line, or restore the file with `git checkout -- {path}`"
        raise ResultsError(error.message, hint=hint) from error
    return tuple(found.values())


def in_force(acceptances: Iterable[Acceptance], today: date) -> dict[CaseKey, Acceptance]:
    """Pick the acceptances that have not expired, by (problem, solution, case)."""
    return {_key(one): one for one in acceptances if today <= one.until}


def _require_complete(acceptance: Acceptance) -> None:
    if not all(_key(acceptance)):
        raise UsageError("an accepted slow-down needs a problem, a solution and a case", "write PROBLEM/SOLUTION/CASE")
    if not acceptance.reason.strip():
        raise UsageError("an accepted slow-down needs a reason", hint="add `--reason TEXT`")
    if not 0 < acceptance.up_to <= MOST_SLOWDOWN:
        message = f"an accepted slow-down is more than 0 and at most {MOST_SLOWDOWN}, not {acceptance.up_to}"
        raise UsageError(message, hint="write for example `--up-to 5%`")


def _accepted_path(gpu_name: str, root: Path) -> Path:
    return root / gpu_folder(gpu_name) / "accepted.csv"


def _key(acceptance: Acceptance) -> CaseKey:
    return CaseKey(acceptance.problem, acceptance.solution, acceptance.case)
