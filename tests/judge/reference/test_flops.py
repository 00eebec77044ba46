"""torch's formulas come without triton, which whoever wants it still gets."""

CODE = """
import sys
from kbench.judge.reference.flops import FORMULAS
print(len(FORMULAS) > 15, 'triton' in sys.modules)
import triton
"""


def test_formulas_are_imported_without_triton(tmp_path, after_torch_process) -> None:
    package = tmp_path / "triton" / "runtime"
    package.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").write_text("print('triton is imported')")
    (package / "jit.py").write_text("JITFunction = type('JITFunction', (), {})")
    path = f"import sys\nsys.stderr = sys.stdout\nsys.path.insert(0, {str(tmp_path)!r})\n"
    assert after_torch_process.run(path + CODE) == "True False\ntriton is imported\n"
