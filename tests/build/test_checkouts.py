"""A solution that lies in a checkout of its own builds from, and imports, that checkout's kernels."""

import sys

import pytest

import kbench.kernels
from kbench.build import interpreter
from kbench.catalog import script
from kbench.worker.solution import constructor_of, import_solution

SOLUTION = "from kbench.kernels.knob import VALUE\n\nclass ModelNew:\n    value = VALUE\n"


@pytest.fixture
def other_kernels(monkeypatch, tmp_path):
    """Undo what importing a solution of another checkout does to this process."""
    monkeypatch.setattr(kbench.kernels, "__path__", list(kbench.kernels.__path__))
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name, module in [*sys.modules.items()]:
        if str(tmp_path) in str(getattr(module, "__spec__", "")):
            del sys.modules[name]


def checkout(folder, value):
    kernels = folder / "kbench" / "kernels"
    (kernels / "include").mkdir(parents=True)
    (kernels / "__init__.py").touch()
    (kernels / "knob.py").write_text(f'VALUE = {value}\nSOURCE = "knob.cu"\n')
    (kernels / "knob.cu").write_text("#include <knob.cuh>\n")
    (kernels / "include" / "knob.cuh").touch()
    solution = folder / "solutions" / "twist" / f"own{value}.py"
    solution.parent.mkdir(parents=True)
    solution.write_text(SOLUTION)
    return solution


@pytest.mark.parametrize("value", [1, 2])
def test_kernels_of_its_own_checkout_are_what_it_imports(tmp_path, other_kernels, value):
    solution = checkout(tmp_path / "one", value)
    assert import_solution(solution).ModelNew.value == value


def test_elsewhere_they_are_the_installed_ones(tmp_path, other_kernels):
    solution = tmp_path / "plain.py"
    solution.write_text("from kbench.kernels.native import POINTER as ModelNew\n")
    assert interpreter.kernels_of(solution) == interpreter.PACKAGE / "kernels"
    assert import_solution(solution).__name__ == "kbench_solution_plain"


def test_a_module_of_a_package_is_imported_with_its_neighbours_and_no_other(tmp_path, other_kernels, monkeypatch):
    """Twice the same package: two commits side by side. The current folder has the first one."""
    script.leave()
    for place, value in (("here", 1), ("there", 2)):
        package = tmp_path / place / "mypackage"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "helper.py").write_text(f"VALUE = {value}\n")
        (package / "ops.py").write_text("from .helper import VALUE\ndef f(x): return VALUE\n")
    monkeypatch.setattr(script._Process, "caller", tmp_path / "here")
    for place, value in (("here", 1), ("there", 2)):
        module = import_solution(tmp_path / place / "mypackage/ops.py", "mypackage.ops:f")
        assert (module.__name__, constructor_of(module, "mypackage.ops:f")()(None)) == ("mypackage.ops", value)
    with pytest.raises(TypeError, match="`VALUE` is a int, not a function or a class"):
        constructor_of(module, "mypackage.ops:VALUE")
    with pytest.raises(ModuleNotFoundError, match="no_package"):
        import_solution(tmp_path / "here/mypackage/ops.py", "no_package.ops:f")
    script.leave()


def test_a_package_beside_the_problem_is_imported_after_the_problem(tmp_path, other_kernels):
    """A builder imports the problem first, whose folder is on the import path then."""
    (tmp_path / "mypackage").mkdir()
    (tmp_path / "mypackage/__init__.py").touch()
    (tmp_path / "mypackage/ops.py").write_text("def f(x): return x\n")
    script.leave()
    script.begin(tmp_path / "problem.py")
    assert import_solution(tmp_path / "mypackage/ops.py", "mypackage.ops:f").__name__ == "mypackage.ops"
    script.leave()
