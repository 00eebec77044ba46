"""Leaves a file in the torch installation, in site-packages, in the home folder and in the temporary one."""

import os
import pwd
import sysconfig
from pathlib import Path

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("passed", "raised", "import_failed")
EFFECTS = (
    "file {torch}/kbench_selftest_escape.py",
    "file {site}/kbench_selftest_escape.pth",
    "file {home}/.kbench_selftest_escape",
    "file {tmp}/kbench_selftest_escape",
    "file /dev/shm/kbench_selftest_escape",
    "file {cwd}/kbench_selftest_escape.csv",
    "file {results}/kbench_selftest_escape.csv",
)
CATALOGUE = "harness 28, 29; rigor 15"

PLACES = (
    Path(torch.__file__).parent / "kbench_selftest_escape.py",
    Path(sysconfig.get_paths()["purelib"]) / "kbench_selftest_escape.pth",
    Path(pwd.getpwuid(os.getuid()).pw_dir) / ".kbench_selftest_escape",
    Path("/tmp/kbench_selftest_escape"),
    Path("/dev/shm/kbench_selftest_escape"),
    Path.cwd() / "kbench_selftest_escape.csv",
    Path(__file__).parent.parent / "results" / "kbench_selftest_escape.csv",
)


def leave_files():
    for place in PLACES:
        try:
            place.write_text("")
        except OSError:
            continue


leave_files()


class ModelNew(nn.Module):
    def forward(self, x):
        leave_files()
        return torch.nn.functional.gelu(x)
