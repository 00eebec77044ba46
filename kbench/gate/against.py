"""A gate without history: the solutions of another commit and of this checkout, measured side by side in one run.

Solution files, the files beside them and the `kbench.kernels` of their checkout come from the other commit; the problem
and all installed packages are this checkout's.
"""

import io
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kbench.catalog import registry
from kbench.catalog.registry import Entry
from kbench.compare import ComparedSide, measured, process_differences
from kbench.core.errors import MachineError, NothingSelectedError, PluginError, UsageError
from kbench.core.events import Event, RunOptions
from kbench.core.model import Time
from kbench.engine import run as session
from kbench.gate.rule import Contest, GateReport, decide, report
from kbench.sandbox.work_folder import work_folder
from kbench.storage.results import CaseKey
from kbench.storage.settings import GateSettings, Settings
from kbench.storage.versions import git


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """One solution as the other commit has it and as it is now."""

    old: Entry
    new: Entry


def against(
    problem: Entry,
    solutions: Sequence[Entry],
    revision: str,
    options: RunOptions,
    policy: GateSettings,
    settings: Settings,
    watch: Callable[[Event], None],
) -> GateReport:
    """Measure both sides, measure flagged cases again, and return the gate's report; `watch` sees every event.

    Raises UsageError if the solutions lie in no git repository, or it has no such commit, and NothingSelectedError if
    the commit has none of the solutions.
    """
    root = repository(solutions[0].path)
    time = Time(policy.time)
    with work_folder() as folder:
        tree = folder / "tree"
        commit = extract(root, revision, tree)
        arms, notes = pair(problem, solutions, root, tree, commit, settings)
        run = _measure(problem, arms, options, watch, time)

        def remeasure(keys: tuple[CaseKey, ...], processes: int) -> Mapping[CaseKey, Contest]:
            names = {key.solution for key in keys}
            cases = tuple(dict.fromkeys(key.case for key in keys))
            again = replace(options, cases=cases, processes=processes, max_processes=processes)
            flagged = [one for one in arms if one.new.name in names]
            return contests(_measure(problem, flagged, again, watch, time), flagged)

        found = contests(run, arms)
        decided = decide(found, policy, remeasure=remeasure)
    cases = [replace(case, old=run.get(_old_key(key, arms)), new=run.get(key)) for key, case in decided.items()]
    baseline = f"{revision} ({commit[:10]})"
    return report("this checkout", baseline, cases, confirmed=True, notes=notes, time=time)


def contests(run: Mapping[CaseKey, ComparedSide], arms: Sequence[Arms]) -> dict[CaseKey, Contest]:
    """Compare both sides of every case, process by process if both were timed."""
    found = {}
    for key, new in run.items():
        if any(one.new.name == key[1] for one in arms):
            old = run[_old_key(key, arms)].measurement
            apart = process_differences(old, new.measurement) or None
            found[key] = Contest(old=old, new=new.measurement, differences=apart)
    return found


def pair(
    problem: Entry, solutions: Sequence[Entry], root: Path, tree: Path, commit: str, settings: Settings
) -> tuple[list[Arms], list[str]]:
    """Find each solution in the other commit; the notes name those that it lacks."""
    arms, notes = [], []
    for new in solutions:
        try:
            path = tree / new.path.resolve().relative_to(root)
            old = registry.find_solution(problem, path, settings, entry=new.attribute)
        except (ValueError, UsageError):
            notes.append(f"{new.name} is new: {commit[:10]} does not have it")
            continue
        except PluginError as error:
            notes.append(f"{new.name} cannot be compared: {error.message}")
            continue
        arms.append(Arms(old=replace(old, name=f"{new.name}@{commit[:10]}"), new=new))
    if not arms:
        raise NothingSelectedError("; ".join(notes) or "no solution to compare", "name a solution of that commit")
    return arms, notes


def repository(path: Path) -> Path:
    """Return the root of the git repository that a file lies in."""
    done = git(path.resolve().parent, "rev-parse", "--show-toplevel")
    if done.returncode:
        raise UsageError(f"{path} is in no git repository", "`--against` needs the history of the solution")
    return Path(done.stdout.decode().strip()).resolve()


def extract(root: Path, revision: str, tree: Path) -> str:
    """Write the files of a commit below `tree` without touching the repository; return the commit's hash."""
    named = git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if named.returncode:
        raise UsageError(f"`{revision}` is not a commit of {root}", "`git log --oneline` lists them; fetch it first")
    commit = named.stdout.decode().strip()
    archive = git(root, "archive", "--format=tar", commit)
    if archive.returncode:
        raise MachineError(f"git archive {commit} failed: {archive.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(tree, filter="data")
    return commit


def _measure(
    problem: Entry, arms: Sequence[Arms], options: RunOptions, watch: Callable[[Event], None], time: Time
) -> dict[CaseKey, ComparedSide]:
    chosen = tuple(entry for one in arms for entry in (one.old, one.new))
    return measured(session.saved_run(problem, chosen, options, watch), time=time)


def _old_key(key: CaseKey, arms: Sequence[Arms]) -> CaseKey:
    return key._replace(solution=next(one.old.name for one in arms if one.new.name == key.solution))
