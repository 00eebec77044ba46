"""A `kbench sweep` over a manifest, for programs that judge files which this project did not write."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def swept(manifest: Path, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Judge all pairs of a manifest, or continue a sweep that was interrupted; return the verdicts.

    The sweep has the manifest's name, and its results lie in `results` beside it.
    """
    run, results = manifest.stem, manifest.parent / "results"
    begun = (results / f"{run}.journal.jsonl").exists()
    what = ["--resume", run] if begun else [str(manifest), "--name", run, *arguments]
    command = [sys.executable, "-m", "kbench", "sweep", *what, "--results", str(results), "--json"]
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    document = json.loads(subprocess.run(command, env=where, stdout=subprocess.PIPE, check=False).stdout)
    if not document["results"] and document["reason"]:
        raise SystemExit(f"the sweep {run} judged nothing: {document['reason']}")
    found: list[dict[str, Any]] = document["results"]
    return found
