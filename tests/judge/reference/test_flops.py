"""torch's formulas come without triton, which whoever wants it still gets."""

import subprocess
import sys
from pathlib import Path

CODE = """
import sys
from kbench.judge.reference.flops import FORMULAS
print(len(FORMULAS) > 15, 'triton' in sys.modules)
import triton
"""


def test_formulas_are_imported_without_triton(tmp_path) -> None:
    package = tmp_path / "triton" / "runtime"
    package.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").write_text("print('triton is imported')")
    (package / "jit.py").write_text("JITFunction = type('JITFunction', (), {})")
    path = f"import sys\nsys.path[:0] = [{str(tmp_path)!r}, {str(Path(__file__).parents[3])!r}]\n"
    done = subprocess.run([sys.executable, "-c", path + CODE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True False\ntriton is imported\n", "")
