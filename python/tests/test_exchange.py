"""Memory shared with NumPy and PyTorch, and how long it lives."""

import gc
import weakref

import numpy as np
import pytest

import gabbro as gb

PAIRS = ["float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"]


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", PAIRS)
def test_numpy_sees_the_tensors_memory(dtype):
    x = gb.tensor([[0, 1], [1, 0]], dtype=dtype).eval()
    views = [x.numpy(), np.asarray(x), np.from_dlpack(x), np.asarray(memoryview(x))]
    assert len({address(view) for view in views}) == 1
    for view in views:
        assert view.dtype == dtype and view.tolist() == x.tolist() and not view.flags.writeable


def test_views_of_the_tensor_are_views_of_the_memory():
    x = gb.arange(12, dtype="int32").reshape(3, 4).eval()
    column = x.T[1].eval()
    assert address(column.numpy()) - address(x.numpy()) == 4
    assert column.numpy().strides == (16,)
    assert gb.broadcast_to(gb.ones(1), (1000, 1000)).numpy().strides == (0, 0)


def test_array_conversions_follow_numpys_arguments():
    x = gb.ones(3)
    assert np.array(x, dtype="float64").dtype == "float64"
    copy = np.array(x, copy=True)
    copy[0] = 5
    assert x.tolist() == [1.0] * 3
    with pytest.raises(BufferError):
        memoryview(x.astype("bfloat16"))
    with pytest.raises(TypeError, match="bfloat16"):
        x.astype("bfloat16").numpy()
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))


def test_memory_of_an_array_lives_as_long_as_the_tensor():
    class Array(np.ndarray):
        pass

    array = np.arange(1000, dtype="float32").view(Array)
    alive = weakref.ref(array)
    x = gb.from_dlpack(array)
    y = x * 2
    del array, x
    gc.collect()
    assert alive() is not None
    assert float(y[999]) == 1998.0
    del y
    gc.collect()
    assert alive() is None


def test_memory_of_a_tensor_lives_as_long_as_the_array():
    view = np.from_dlpack(gb.arange(100000) + 1)
    gc.collect()
    others = [gb.zeros(100000) + i for i in range(10)]
    gb.eval(others)
    assert view[-1] == 100000


def test_kernels_do_not_read_past_the_end_of_an_array():
    import ctypes
    import mmap

    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    for count in (1, 3, 17, 31, 65):
        array = np.frombuffer(memory, "float32", count, page - 4 * count)
        x = gb.asarray(array)
        matrix = gb.asarray(array.reshape(1, count))
        gb.eval(x + x, gb.exp(x), gb.sum(x), gb.softmax(x), gb.sort(x).values, matrix @ matrix.T)
        gb.eval(gb.cumsum(x, 0), gb.argmax(x))
        gb.eval(gb.linear(matrix, matrix), gb.layer_norm(matrix), x.astype("float16"), x > 0, gb.rms_norm(matrix, x))


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.parametrize("dtype", [*PAIRS, "bfloat16"])
def test_pytorch_in_both_directions(torch, dtype):
    theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype)).T
    ours = gb.from_dlpack(theirs)
    assert ours.dtype == dtype and ours.shape == (3, 2) and ours.tolist() == theirs.tolist()
    theirs += theirs  # the memory is shared
    assert ours.tolist() == theirs.tolist()
    back = torch.from_dlpack(ours)
    assert back.data_ptr() == theirs.data_ptr() and back.dtype == theirs.dtype
    assert torch.equal(back, theirs)


def test_results_for_pytorch(torch):
    x = torch.from_dlpack(gb.ones((2, 3)) * 3)
    gc.collect()
    assert x.sum().item() == 18.0
