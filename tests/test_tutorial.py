"""The tutorial, followed from its text alone: its files are written, its commands run, its output compared.

Numbers are masked, for they differ from run to run. Lines of advice depend on how busy the machine is and are left out.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.S | re.M)
UNEVEN = "note: the change is that of the time over the reference's"
"""Said where the machine was slower in one of two runs than in the other."""
ADVICE = ("warning:", "timing:", "hint:", "level:", UNEVEN)
MASKS = (
    (r"\S*results/\d{4}-\d\d-\d\dT\d+-", "results/#-"),  # a run's own name begins with the time
    (r"\S*results/baselines/[^/]+/", "results/baselines/#/"),
    (r"\S*results/", "results/"),
    (r"(CPU )?[^·\n]+ · torch [^ \n]+", "# · torch #"),
    (r"~?[-−+±]?(\d[\d,.]*(e[+-]?\d+)?|nan|inf)(×| %|%)?", "#"),
    (r"# … #", "#"),  # a speed-up of which not one digit is known is told by its ends
    (r"\b(host or )?judge (or host )?timer\b", "host timer"),  # where a claim was not believed: on a busy machine
    (r"# [µmn]?s\b", "#"),
    (r"\b[µmn]?s\b(?= +(reference|speed-up|second|change))", "#"),  # the unit in a table's head
    (r"(?m)^fused is right.*", "fused is right"),  # how the sentence goes on depends on the interval
    (r"[ \t]+", " "),
)


def masked(text: str) -> list[str]:
    """Return the lines that every machine prints, without numbers."""
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(ADVICE)]


def write(path: Path, language: str, text: str) -> None:
    """Do what the tutorial tells its reader: a whole file, the text of SOURCE, or lines with the same left side."""
    if not path.exists() or text.startswith('"""'):
        path.write_text(text)
    elif language == "cpp":
        before, _, rest = path.read_text().partition('SOURCE = r"""\n')
        path.write_text(f'{before}SOURCE = r"""\n{text}"""{rest.partition(chr(34) * 3)[2]}')
    else:
        for line in text.splitlines():
            left = line.partition("=")[0].strip()
            changed, count = re.subn(rf"(?m)^ *{re.escape(left)} =.*$", lambda _, new=line: new, path.read_text())
            assert count == 1, f"`{left}` is not one line of {path}"
            path.write_text(changed)


@pytest.mark.slow(seconds=35)
def test_the_tutorial_shows_what_its_commands_print(tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    command = programs / "kbench"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kbench "$@"\n')
    command.chmod(0o755)
    folder = tmp_path / "my_kernels"
    folder.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "KBENCH_CACHE": str(tmp_path / "cache"),
    }
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    ran = 0
    for language, title, body in BLOCK.findall(text):
        if title:
            write(folder / title, language, body)
        if language != "console":
            continue
        script = "\n".join(line.removeprefix("$ ") for line in body.splitlines() if line.startswith("$ "))
        shown = "\n".join(line for line in body.splitlines() if not line.startswith("$ "))
        done = subprocess.run(
            ["bash", "-c", script],
            check=False,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            timeout=300,  # devices are leased: another kbench on this machine may have to finish first
        )
        assert masked(done.stdout) == masked(shown), f"{script}\n{done.stdout}\n{done.stderr}"
        ran += script.count("\n") + 1
    assert ran >= 12
