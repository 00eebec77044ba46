"""Baselines: runs that others are compared with, in `<root>/<gpu>/<name>/<problem>.csv` with their samples, in git.

The gate compares with `main`. A slow-down is accepted by the commit of a new baseline.
"""

import re
from pathlib import Path

from kbench.core.errors import MachineError, UsageError, did_you_mean
from kbench.core.model import ResultRow, Status
from kbench.storage import csvfile
from kbench.storage.results import LONGEST_NAME, Run, read_run
from kbench.storage.rows import contradiction
from kbench.storage.runfiles import SAMPLES_SUFFIX, samples_path

ROOT = Path("results/baselines")
MAIN = "main"


def baseline_path(run: Run, name: str = MAIN, root: Path = ROOT) -> Path:
    """Return the path of a run's baseline. Raises UsageError for a name, or a problem's, that does not fit a path."""
    row = run.rows[0]
    stem = Path(row.problem).stem
    if len(stem.encode()) > LONGEST_NAME:
        raise UsageError(f"{run.name}: `{stem[:40]}…` is too long for a baseline's file name", "rename the problem")
    if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}", name):
        raise UsageError(f"`{name}` is not a valid name of a baseline", "use letters, digits, dots and dashes")
    device = re.sub(r"[^a-z0-9]+", "-", row.gpu_name.lower()).strip("-") or "unknown"  # `nvidia-h200`
    return root / device / name / f"{stem}.csv"


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
