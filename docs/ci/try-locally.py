"""Run the `run:` steps of a workflow in order, as a runner would: `python docs/ci/try-locally.py [WORKFLOW]`.

Knows as much of the format as `github-actions.yml` uses: env, and steps with a name and a run block. Steps with
`uses:` are skipped.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def read_steps(text: str) -> list[tuple[str, str]]:
    """Return name and script of each step that has a `run:`."""
    steps = []
    for block in re.split(r"(?m)^      - ", text)[1:]:
        name = re.search(r"^name: (.+)$", block, re.M)
        script = re.search(r"^ *run: (?:\|\n((?: {10}.*\n?|\n)+)|(.+)$)", block, re.M)
        if script:
            lines = (script[1] or script[2]).splitlines()
            steps.append((name[1] if name else "step", "\n".join(line.strip() for line in lines)))
    return steps


def read_environment(text: str) -> dict[str, str]:
    """Return the workflow's own variables."""
    block = re.search(r"(?m)^env:\n((?:  .+\n)+)", text)
    return dict(re.findall(r"(?m)^  (\w+): (.+)$", block[1])) if block else {}


def main() -> int:
    """Run every step until one fails; print the step summary at the end."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("github-actions.yml")
    text = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder, "summary.md")
        # The caller's own variables win, so that PROBLEM and SOLUTION can be given from outside.
        environment = {**read_environment(text), **os.environ, "GITHUB_STEP_SUMMARY": str(summary)}
        code = 0
        for name, script in read_steps(text):
            print(f"--- {name}", flush=True)
            code = subprocess.run(["bash", "-eo", "pipefail", "-c", script], check=False, env=environment).returncode
            if code:
                print(f"--- {name} ended with exit code {code}")
                break
        if summary.exists():
            print("--- step summary\n" + summary.read_text(encoding="utf-8"))
    return code


if __name__ == "__main__":
    sys.exit(main())
