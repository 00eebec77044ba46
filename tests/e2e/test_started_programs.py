"""Solutions that start programs: their build has a build's time, and its crash is reported as one."""

from pathlib import Path

import pytest
import tiny_corpus
from verdicts import verdicts, written

from kbench.core.levels import Level
from kbench.core.model import Failed

pytestmark = [pytest.mark.slow(seconds=30), pytest.mark.usefixtures("own_cache")]

HEAD = """import ctypes, os, subprocess

def started(command="true"):
    if not os.path.exists("/tmp/made"):
        subprocess.run(["sh", "-c", f"{command}; touch /tmp/made"], check=True)
    return 2
"""
CRASH = "ctypes.string_at(8)"
SOLUTIONS = {
    "slow_at_import": (tiny_corpus.solution("return factor * x", head=f"{HEAD}factor = started('sleep 10')"), "passed"),
    "crash_at_import": (tiny_corpus.solution("return 2 * x", head=f"{HEAD}started()\n{CRASH}"), "SIGSEGV"),
    "crash_in_call": (tiny_corpus.solution(f"started(); {CRASH}; return 2 * x", head=HEAD), "SIGSEGV"),
    "abort_in_call": (tiny_corpus.solution("started(); os.abort(); return 2 * x", head=HEAD), "SIGABRT"),
}


def test_the_end_of_a_solution_that_starts_programs_is_its_own(tmp_path: Path) -> None:
    problem, solutions = written(tmp_path, tiny_corpus.problem(), {name: text for name, (text, _) in SOLUTIONS.items()})
    found = verdicts(problem, solutions, level=Level.TASK, import_timeout_s=8.0, results_dir=tmp_path)
    reasons = {name: one.outcome.reason if isinstance(one.outcome, Failed) else "passed" for name, one in found.items()}
    assert [name for name, (_, words) in SOLUTIONS.items() if words not in reasons[name]] == [], reasons
