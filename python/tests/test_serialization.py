"""Files of PyTorch: what PyTorch wrote is read, what Gabbro writes is read again, and everything else is named."""

import collections
import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

import gabbro as gb
from gabbro import nn

WRITTEN = Path(__file__).with_name("data") / "by_torch.pt"


def expected_of_torch():
    base = np.arange(12, dtype="float32").reshape(3, 4)
    return {"weight": base.T, "row": base[1], "ids": np.array([1, 2]), "flags": np.array([True, False]),
            "half": np.ones(2, "float16"), "scalar": np.float32(3), "empty": np.zeros((0, 3), "float32")}  # fmt: skip


def test_a_file_of_pytorch_is_read():
    found = gb.load(WRITTEN)
    for name, array in expected_of_torch().items():
        assert found[name].numpy().dtype == array.dtype and found[name].shape == array.shape, name
        np.testing.assert_array_equal(found[name].numpy(), array)
    assert found["brain"].dtype == gb.bfloat16 and found["brain"].tolist() == [1.0, 1.0]
    assert isinstance(found["parameter"], nn.Parameter) and found["parameter"].requires_grad
    assert (found["number"], found["list"], found["size"]) == (5, [1, "a"], (1, 2))
    assert found["dtype"] is gb.float32 and found["ordered"] == collections.OrderedDict(a=1)


def test_what_is_written_is_read_again(tmp_path):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    optimizer = gb.optim.NAdam(model.parameters(), lr=0.1)
    model(gb.ones(4, 2)).sum().backward()
    optimizer.step()
    path = tmp_path / "checkpoint.pt"
    gb.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)
    found = gb.load(path, map_location="cpu")
    other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    assert other.load_state_dict(found["model"]) == ([], []) and found["epoch"] == 3
    again = gb.optim.NAdam(other.parameters(), lr=1.0)
    again.load_state_dict(found["optimizer"])
    for step in range(2):
        for one, steps in ((model, optimizer), (other, again)):
            steps.zero_grad()
            (one(gb.ones(4, 2) * step) ** 2).sum().backward()
            steps.step()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    assert list(tmp_path.iterdir()) == [path]


def test_dtypes_and_strange_shapes_are_kept():
    file = io.BytesIO()
    written = [gb.tensor([1], dtype=name) for name in ("int8", "uint8", "int16", "int32", "int64", "float64", "bool")]
    written += [gb.zeros(0, 2), gb.tensor(2.5), gb.arange(6).reshape(2, 3).T, gb.tensor([1.5], dtype="bfloat16")]
    gb.save(written, file)
    for a, b in zip(written, gb.load(file), strict=True):
        assert (a.shape, a.dtype, a.tolist()) == (b.shape, b.dtype, b.tolist())


class Settings:
    def __init__(self):
        self.width = 3


def test_other_objects_are_read_where_they_are_allowed():
    file = io.BytesIO()
    gb.save({"settings": Settings(), "weight": gb.ones(2)}, file)
    with pytest.raises(pickle.UnpicklingError, match=r"Settings.*weights_only"):
        gb.load(file)
    assert gb.load(file, weights_only=False)["settings"].width == 3
    with gb.serialization.safe_globals([Settings]):
        assert gb.load(file)["settings"].width == 3
    gb.serialization.add_safe_globals([Settings])
    assert gb.serialization.get_safe_globals() == [Settings]
    gb.serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        gb.load(file)


def test_a_pickle_cannot_call_functions():
    class Evil:
        def __reduce__(self):
            return print, ("called",)

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Evil(), protocol=2))
    with pytest.raises(pickle.UnpicklingError, match="print"):
        gb.load(file)


def test_locations(tmp_path):
    path = tmp_path / "a.pt"
    gb.save(gb.ones(2), path)
    for place in ("cpu", gb.device("cpu"), {"cpu": "cpu"}, lambda storage, location: storage):
        assert gb.load(path, place).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="map_location"):
        gb.load(path, lambda storage, location: 3)


def test_other_files_are_named(tmp_path):
    array, npz, other = tmp_path / "a.npy", tmp_path / "a.npz", tmp_path / "a.bin"
    np.save(array, np.ones(2))
    np.savez(npz, x=np.ones(3))
    other.write_bytes(b"text")
    assert gb.load(npz)["x"].tolist() == gb.load_state(npz)["x"].tolist() == [1.0] * 3
    for path, word in ((array, "NumPy"), (other, "safetensors")):
        with pytest.raises(ValueError, match=word):
            gb.load(path)
    with pytest.raises(FileNotFoundError):
        gb.load(tmp_path / "missing.pt")
    with zipfile.ZipFile(tmp_path / "zip.pt", "w") as archive:
        archive.writestr("readme", "x")
    with pytest.raises(ValueError, match="not of PyTorch"):
        gb.load(tmp_path / "zip.pt")
    whole = WRITTEN.read_bytes()
    for count in (10, len(whole) // 2, len(whole) - 30):
        (tmp_path / "cut.pt").write_bytes(whole[:count])
        with pytest.raises(ValueError, match="PyTorch"):
            gb.load(tmp_path / "cut.pt")


def test_load_state_reads_tensors_of_pytorch(tmp_path):
    path = tmp_path / "state.pt"
    gb.save(nn.Linear(2, 3).state_dict(), path)
    assert list(gb.load_state(path)) == ["weight", "bias"]
    gb.save({"epoch": 3}, path)
    with pytest.raises(ValueError, match=r"gabbro\.load"):
        gb.load_state(path)


def test_arguments_that_have_no_effect_are_refused(tmp_path):
    for options in ({"mmap": True}, {"pickle_module": pickle}, {"encoding": "ascii"}):
        with pytest.raises(ValueError, match="not supported"):
            gb.load(WRITTEN, **options)
    with pytest.raises(ValueError, match="not supported"):
        gb.save(1, tmp_path / "a.pt", pickle_protocol=3)
    assert list(tmp_path.iterdir()) == []


def test_pytorch_reads_what_is_written(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    gb.save(gb.load(WRITTEN), path)
    for name, value in torch.load(path).items():
        wanted = torch.load(WRITTEN)[name]
        assert torch.equal(value, wanted) if isinstance(value, torch.Tensor) else value == wanted
