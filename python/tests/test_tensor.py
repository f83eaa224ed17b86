"""Tensors as Python objects: construction, conversions, text."""

import copy
import pickle

import numpy as np
import pytest

import gabbro as gb

DTYPES = ["float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"]


def test_numbers_and_lists_have_pythons_dtypes():
    assert gb.tensor(1.5).dtype is gb.float32
    assert gb.tensor(2).dtype is gb.int64
    assert gb.tensor(True).dtype is gb.bool
    assert gb.tensor([1, 2.5]).dtype is gb.float32
    assert gb.tensor([1 << 40]).dtype is gb.int64
    assert gb.tensor([[1, 2, 3]]).shape == (1, 3)
    assert gb.tensor([]).shape == (0,)
    assert gb.tensor(7).shape == ()


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_arrays_keep_their_dtype_and_their_elements(dtype, rng):
    array = (rng.random((2, 3, 5)) * 100).astype(dtype)
    for source in (
        array,
        array[::2, ::-1],
        array.transpose(2, 0, 1),
        array[:, :0],
        np.broadcast_to(array, (2, 2, 3, 5)),
    ):
        x = gb.tensor(source)
        assert x.dtype == dtype
        np.testing.assert_array_equal(x.numpy(), source)
        assert gb.asarray(source).tolist() == source.tolist()


def test_tensor_copies_and_asarray_does_not():
    array = np.zeros(8, "float32")
    copied, shared = gb.tensor(array), gb.asarray(array)
    array[:] = 1
    assert copied.tolist() == [0.0] * 8
    assert shared.tolist() == [1.0] * 8
    with pytest.raises(ValueError, match="asarray"):
        gb.asarray(array[::-1], copy=False)


def test_unsupported_dtypes_and_objects_are_type_errors():
    for bad in (np.zeros(2, "uint32"), np.zeros(2, "complex64"), "text", object(), [[1, 2], ["a"]], None, {1: 2}):
        with pytest.raises((TypeError, ValueError)):
            gb.tensor(bad)
    with pytest.raises(ValueError, match="axes"):
        gb.tensor(np.zeros((1,) * 7, "float32"))


def test_attributes():
    x = gb.zeros((2, 3), dtype="float16")
    assert (x.shape, x.ndim, x.size, x.nbytes) == ((2, 3), 2, 6, 12)
    assert x.device == "cpu" and str(x.device) == "cpu"
    assert len(x) == 2 and len(list(x)) == 2
    with pytest.raises(TypeError):
        len(gb.tensor(1.0))
    with pytest.raises(TypeError):
        iter(gb.tensor(1.0))


def test_one_number_becomes_pythons():
    assert float(gb.tensor([2.5])) == 2.5
    assert int(gb.tensor(3)) == 3
    assert bool(gb.tensor([[False]])) is False
    assert [10, 20, 30][gb.tensor(1)] == 20
    assert f"{gb.tensor(2.0):.3f}" == "2.000"
    assert isinstance(gb.tensor(3).item(), int)
    for read in (float, int, bool, gb.Tensor.item):
        with pytest.raises(ValueError, match=r"\(2,\)"):
            read(gb.tensor([1.0, 2.0]))
    with pytest.raises(TypeError):
        [1, 2][gb.tensor(1.0)]


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (lambda: gb.tensor([1.0, 2.5]), "tensor([1. , 2.5])"),
        (lambda: gb.tensor([[1, 2], [3, 4]]), "tensor([[1, 2],\n        [3, 4]])"),
        (lambda: gb.tensor([True]), "tensor([ True])"),
        (lambda: gb.tensor(1.5, dtype="float16"), "tensor(1.5, dtype=float16)"),
        (lambda: gb.tensor([1.5], dtype="bfloat16"), "tensor([1.5], dtype=bfloat16)"),
        (lambda: gb.zeros((0, 3)), "tensor([], shape=(0, 3))"),
        (lambda: gb.tensor(np.arange(2, dtype="int32")), "tensor([0, 1], dtype=int32)"),
    ],
)
def test_repr_is_like_numpys(made, shown):
    assert repr(made()) == shown


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_pickles_and_copies(dtype):
    x = gb.tensor([[1, 0], [1, 1]], dtype=dtype).T
    for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert y.dtype == x.dtype and y.tolist() == x.tolist() and y.device == x.device
    assert pickle.loads(pickle.dumps(x.dtype)) is x.dtype
    assert pickle.loads(pickle.dumps(x.device)) == x.device


def test_a_broken_pickle_is_refused():
    with pytest.raises(ValueError, match="unpickle"):
        gb._core._unpickled(b"123", "float32", (2,), "cpu")


def test_dtypes():
    assert gb.float32 == "float32" == str(gb.float32)
    assert gb.float32 == np.float32 and gb.bool == np.dtype("bool")
    assert gb.float32 != gb.float16 and gb.float32 != "no dtype" and gb.float32 != 3
    assert {gb.int8: 1}[gb.int8] == 1
    assert gb.zeros(1, dtype=float).dtype is gb.float32
    assert repr(gb.bool) == "gabbro.bool"
    with pytest.raises(TypeError, match="float31"):
        gb.tensor([1.0], dtype="float31")


def test_set_device_and_device_objects():
    gb.set_device("cpu")
    device = gb.get_device()
    assert device == gb.Device("cpu") == "cpu" and hash(device) == hash(gb.Device("cpu"))
    assert gb.device_info()["id"] == "cpu" and gb.device_info(device)["total_memory"] > 0
    x = gb.ones(3)
    assert x.to(device).tolist() == [1.0] * 3
    with pytest.raises(gb.DeviceError):
        gb.set_device("no_such_device")
    with pytest.raises(TypeError):
        gb.ones(3, device=3)
