"""Shapes that a problem does not list: which are derived, and what solutions do at them, through a run."""

from pathlib import Path

import pytest

from kbench.catalog import shapes
from kbench.catalog.problem import unheard

FILES = Path(__file__).parents[1] / "kernelbench"

DERIVED = {
    # the largest size larger and the others short; all short; larger what the first does not make so
    "25_Swish": [{"batch_size": 5, "dim": 2053}, {"batch_size": 5, "dim": 37}, {"batch_size": 67, "dim": 37}],
    "93_MaskedSum": [
        {"batch_size": 5, "input_shape": (257,)},
        {"batch_size": 5, "input_shape": (37,)},
        {"batch_size": 131, "input_shape": (37,)},
    ],
    "76_GemmAddReLU": [{"batch_size": 37}, {"batch_size": 5, "in_features": 37}, {"batch_size": 5, "in_features": 67}],
    "35_Recurrent": [
        {"batch_size": 5, "sequence_length": 41},
        {"batch_size": 5, "sequence_length": 37, "input_size": 11},
        {"batch_size": 7, "sequence_length": 37, "input_size": 13},
    ],
    "40_RowNorm": [
        {"batch_size": 17},
        {"batch_size": 5, "features": 7, "dim1": 23, "dim2": 23},
        {"batch_size": 5, "features": 11, "dim1": 29, "dim2": 29},
    ],
    "28_Patches": [{"image_size": 16, "channels": 2}, {"image_size": 16, "channels": 5}],
    "95_ClassLoss": [
        {"batch_size": 131, "num_classes": 37, "input_shape": (37,)},
        {"batch_size": 5, "num_classes": 37, "input_shape": (37,)},
        {"batch_size": 5, "num_classes": 67, "input_shape": (67,)},
    ],
    "100_Literal": [],
}


@pytest.mark.parametrize("name", DERIVED)
def test_shapes_follow_the_constants_as_far_as_the_reference_goes_along(name):
    derived = shapes.derive(FILES / f"{name}.py", {})
    assert derived.cases == DERIVED[name]
    assert bool(derived.reason) == (not derived.cases)


def test_constants_set_from_outside_are_what_is_made_smaller_and_larger():
    derived = shapes.derive(FILES / "25_Swish.py", {"dim": 20})
    assert derived.cases == [{"batch_size": 67, "dim": 19}, {"batch_size": 5, "dim": 19}, {"batch_size": 5, "dim": 23}]


@pytest.mark.parametrize("sizes", [(24, 48), (3, 1024), (7, 4096), (64, 64)])
def test_every_size_is_larger_in_one_shape_and_smaller_in_another(tmp_path, sizes):
    own = dict(zip(("batch_size", "dim"), sizes, strict=True))
    derived = shapes.derive(FILES / "25_Swish.py", own).cases
    for name, size in own.items():
        assert any(case.get(name, size) > size for case in derived), name
        assert any(case.get(name, size) < size for case in derived), name


def test_larger_shapes_are_not_larger_than_is_good(tmp_path):
    huge = shapes.derive(FILES / "25_Swish.py", {"batch_size": 4096, "dim": 1 << 20}).cases
    assert all(case["batch_size"] * case["dim"] <= shapes.MAX_ELEMENTS for case in huge)
    assert all(any(case[name] > size for case in huge) for name, size in {"batch_size": 4096, "dim": 1 << 20}.items())
    one = (FILES / "25_Swish.py").read_text().replace("torch.rand(batch_size, dim)", "torch.rand(dim, dim)")
    (tmp_path / "one.py").write_text(one)
    assert shapes.derive(tmp_path / "one.py", {"dim": 8192}).cases == [{"dim": 1031}, {"dim": 5}]


def test_tensors_in_lists_of_the_inputs_have_shapes_too(tmp_path):
    listed = (FILES / "25_Swish.py").read_text()
    listed = listed.replace("x * torch.sigmoid(x)", "x[0] * torch.sigmoid(x[0])").replace("return [x]", "return [[x]]")
    assert "[[x]]" in listed
    (tmp_path / "listed.py").write_text(listed)
    assert shapes.derive(tmp_path / "listed.py", {}).cases == DERIVED["25_Swish"]


def test_shapes_of_equal_constants_stay_equal_where_they_must(tmp_path):
    square = (FILES / "25_Swish.py").read_text()
    square = square.replace("x * torch.sigmoid(x)", "x + x.T").replace("dim = 2048", "dim = 64")
    (tmp_path / "square.py").write_text(square)
    assert shapes.derive(tmp_path / "square.py", {}).cases == [
        {"batch_size": 67, "dim": 67},
        {"batch_size": 5, "dim": 5},
    ]


def test_a_file_that_cannot_be_looked_at_says_so(tmp_path):
    (tmp_path / "odd.py").write_text("def get_inputs():\n    raise SystemError\nclass Model: pass\n")
    assert "without making them" in shapes.derive(tmp_path / "odd.py", {}).reason


@pytest.mark.parametrize(
    ("value", "size", "expected"),
    [
        (2048, 37, [37, 1024]),
        (2048, 1031, [1031, 1024]),
        (64, 1031, [61, 32]),
        (6, 5, [5, 3]),
        (3, 5, [2, 1]),
        (2, 5, [1]),
        ((3, 240, 240), 37, [(3, 37, 37), (3, 120, 120)]),
        ([16], 5, [[5], [8]]),
    ],
)
def test_smaller_values(value, size, expected):
    assert shapes.smaller(value, size) == expected


def test_finding_shapes_does_not_import_the_compiler(after_torch_process) -> None:
    """Calls of small references are made on the CPU: without memory, the first would import it for seconds."""
    paths = [str(FILES / f"{name}.py") for name in ("25_Swish", "76_GemmAddReLU", "35_Recurrent")]
    code = f"""
        import sys, torch
        from pathlib import Path
        from kbench.catalog import shapes
        for path in {paths}:
            assert shapes.derive(Path(path), {{}}).cases, path
        assert "torch._dynamo" not in sys.modules
    """
    after_torch_process.run(code)


@pytest.mark.parametrize(("features", "device"), [(64, "cpu"), (8192, "meta")])
def test_a_model_with_many_parameters_is_called_without_memory(tmp_path: Path, features: int, device: str) -> None:
    path = tmp_path / "linear.py"
    text = (FILES / "76_GemmAddReLU.py").read_text()
    path.write_text(text.replace("out_features = 48", f"out_features = {features}"))
    assert f"out_features = {features}" in path.read_text()
    probe = shapes._Probe(path, {"in_features": 8192}, unheard)
    assert probe._trial({"batch_size": 5}) == (device, 1)


def test_a_problem_that_compiles_has_the_compiler(tmp_path: Path) -> None:
    text = (FILES / "25_Swish.py").read_text()
    path = tmp_path / "compiled.py"
    path.write_text(text.replace("torch.sigmoid(x)", "torch.compile(torch.sigmoid, backend='eager')(x)"))
    assert shapes.derive(path, {}).cases == DERIVED["25_Swish"]
