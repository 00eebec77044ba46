"""Which devices a text names, with GPUs that are not there."""

import dataclasses

import pytest

from kbench.core.errors import MachineError, NoGpuError, UsageError
from kbench.devices import selection

GPUS = [dataclasses.replace(selection.cpu(), kind="cuda", uuid=uuid) for uuid in ("GPU-aa11", "GPU-ab22")]


@pytest.mark.parametrize(
    ("wanted", "uuids"),
    [
        (None, ["GPU-aa11", "GPU-ab22"]),
        ("1,0", ["GPU-ab22", "GPU-aa11"]),
        (" 1 , 0 ", ["GPU-ab22", "GPU-aa11"]),
        ("GPU-ab22", ["GPU-ab22"]),
        ("GPU-ab", ["GPU-ab22"]),
        ("", []),
        ("-1", []),
        ("1,7,0", ["GPU-ab22"]),
    ],
)
def test_the_gpus_that_the_environment_leaves(wanted, uuids):
    assert [gpu.uuid for gpu in selection.left_visible(GPUS, wanted)] == uuids


@pytest.mark.parametrize("wanted", ["7", "GPU-cc", "GPU-a", "MIG-12ab", "all"])
def test_a_gpu_that_is_not_there_is_no_reason_for_the_cpu(wanted):
    with pytest.raises(MachineError, match=f"CUDA_VISIBLE_DEVICES names `{wanted}`"):
        selection.left_visible(GPUS, wanted)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("all", ("cuda:0", "cuda:1")),
        ("auto", ("cuda:0", "cuda:1")),
        ("cuda", ("cuda:0", "cuda:1")),
        ("cpu", ("cpu",)),
        ("1", ("cuda:1",)),
        ("1,0,1", ("cuda:1", "cuda:0")),
        ("cuda:1", ("cuda:1",)),
    ],
)
def test_a_list_names_devices(monkeypatch, text, names):
    monkeypatch.setattr(selection, "visible_gpus", lambda: GPUS)
    assert selection.names_in(text) == names
    kinds = {name: selection.choose(name).uuid for name in names}
    assert [one.uuid for one in selection.choose_devices(text)] == list(kinds.values())


def test_without_a_gpu_a_list_is_the_processor_unless_it_asks_for_gpus(monkeypatch):
    monkeypatch.setattr(selection, "visible_gpus", list)
    assert [one.kind for one in selection.choose_devices("all")] == ["cpu"]
    for text in ("cuda", "0,1"):
        with pytest.raises(NoGpuError):
            selection.choose_devices(text)


def test_devices_of_two_models_are_not_mixed():
    selection.require_alike(GPUS)
    with pytest.raises(UsageError, match="several models"):
        selection.require_alike([GPUS[0], dataclasses.replace(GPUS[1], name="another")])
