"""The tutorial, followed from its text alone: its files are written, its commands run, its output compared.

Numbers are masked, for they differ from run to run. Lines of advice depend on how busy the machine is and are left out.
"""

import re
import shlex
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
    (r"(?ms)^GATE (PASSED|FAILED) .*", "GATE"),  # what is judged of two times depends on how steady the machine is
    (r"(?ms)^ *verdict .* change .*", "verdicts"),
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


@pytest.mark.slow(seconds=25)
def test_the_tutorial_shows_what_its_commands_print(tmp_path, monkeypatch, own_cache, kbench):
    """In this process: a new one for each command would import torch a dozen times."""
    folder = tmp_path / "my_kernels"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[tool.kbench.run]\nprecision = 0.9\n")  # numbers are masked
    monkeypatch.chdir(folder)
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    ran, code, is_timed = 0, 0, False
    for language, title, body in BLOCK.findall(text):
        if title:
            write(folder / title, language, body)
        if language != "console":
            continue
        for line, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", body, re.M):
            program, *words = shlex.split(line)
            if [program, *words] == ["echo", "$?"]:
                assert is_timed or f"{code}\n" == shown.lstrip(), f"{line}\n{shown}\n{code}"
                printed = f"{code}\n"
            else:
                assert program == "kbench", f"a reader would type `{line}` into a shell, and this test cannot"
                done = kbench(*words)
                code, printed, is_timed = done.code, done.out, words[0] == "gate"  # its code depends on two times
            assert masked(printed) == masked(shown), f"{line}\n{shown}\n{printed}\n{done.err}"
            ran += 1
    assert ran >= 12
