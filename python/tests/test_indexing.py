"""x[...] and x[...] = y against NumPy."""

import numpy as np
import pytest

import gabbro as gb
from conftest import close

I = np.s_  # noqa: E741
BASIC = [
    I[0], I[-1], I[1:], I[:0], I[::2], I[::-1], I[5:1:-2], I[...], I[None], I[0, 1], I[0, :, -1], I[..., 0],
    I[:, None, 1:3], I[1, ..., ::3], I[None, ..., None], I[:, 2], I[1:2, 0:1, 3:4], I[:, :, ::-1],
    I[0, 1, 2], I[np.int64(1)], I[..., np.uint8(2)], I[()], I[100:], I[-100:2],
]  # fmt: skip


@pytest.fixture
def array():
    return np.arange(3 * 4 * 5, dtype="float32").reshape(3, 4, 5)


@pytest.mark.parametrize("index", BASIC, ids=str)
def test_reading(index, array):
    close(gb.tensor(array)[index], array[index])
    close(gb.tensor(array.transpose(2, 0, 1))[index], array.transpose(2, 0, 1)[index])


@pytest.mark.parametrize("index", BASIC, ids=str)
def test_writing(index, array):
    x = gb.tensor(array)
    before = x + 0
    values = -np.arange(array[index].size, dtype="float32").reshape(array[index].shape) - 1
    for value in (values, 7.0):
        expected = array.copy()
        expected[index] = value
        y = gb.tensor(array)
        y[index] = value
        close(y, expected)
    close(before, array)


def test_writing_broadcasts_and_casts():
    x = gb.zeros((2, 3))
    x[:, 1:] = gb.tensor([5, 6])
    assert x.tolist() == [[0, 5, 6], [0, 5, 6]]
    with pytest.raises(ValueError, match=r"\[setitem\].*\(3,\)"):
        x[0, :2] = gb.ones(3)


ADVANCED = [
    I[[0, 2]], I[[2, 0, 0], :2], I[:, [1, -1]], I[[0, 1], [2, 3]], I[[0, 1], :, [2, 3]], I[None, [1]],
    I[..., [0, 0, 4]],
    I[np.array([[0, 1], [2, 2]])], I[np.array([[0], [1]]), np.array([2, 3])], I[1, [0, 3]], I[[]],
    I[np.arange(3) > 0], I[np.arange(12).reshape(3, 4) % 2 == 0], I[:, np.arange(4) != 2, 1:], I[np.zeros(3, bool)],
]  # fmt: skip


@pytest.mark.parametrize("index", ADVANCED, ids=str)
def test_reading_and_writing_by_tensors(index, array):
    def ours(part):
        return gb.tensor(part) if isinstance(part, np.ndarray) else part

    tensors = tuple(map(ours, index)) if isinstance(index, tuple) else ours(index)
    for form in (index, tensors):
        close(gb.tensor(array)[form], array[index])
        values = -np.arange(array[index].size, dtype="float32").reshape(array[index].shape) - 1
        for value in (values, 7.0, values[..., :1]):
            expected = array.copy()
            expected[index] = value
            x = gb.tensor(array)
            x[form] = value
            if np.unique(np.arange(60).reshape(3, 4, 5)[index]).size == values.size:
                close(x, expected)
            else:
                assert x.shape == expected.shape


def test_masks_of_the_tensor(array):
    x = gb.tensor(array)
    x[x > 30] = -1
    x[:, x[0, :, 0] == 0] *= 2
    expected = array.copy()
    expected[expected > 30] = -1
    expected[:, expected[0, :, 0] == 0] *= 2
    close(x, expected)
    double = gb.compile(lambda x, mask: x * mask)
    assert double(x, x > 0).shape == x.shape
    with pytest.raises(ValueError, match="compile"):
        gb.compile(lambda x: x[x > 0])(x)
    close(x[gb.tensor(True), 0], expected[None, 0])
    for mask in (gb.tensor([True]), gb.ones((3, 5), dtype=bool)):
        with pytest.raises(IndexError):
            x[mask]
        with pytest.raises(IndexError):
            x[mask] = 1


def test_rows_are_iterated_over(array):
    for row, expected in zip(gb.tensor(array), array, strict=True):
        close(row, expected)


@pytest.mark.parametrize(
    "index",
    [True, False, np.True_, np.False_, I[True, :1], I[0, True], I[:, False], I[0, :, [0, 1, 2]], I[0, :, [[0], [1]]],
     I[[0, 1], :, 0], I[:, 0, [0, 1]], I[0, [1, 2]], I[True, [0, 1]], I[..., True], I[0, ..., [1]], I[0, None, [1]],
     I[True, 0, :, [1, 2]], I[np.array(True)], I[(0, 2), ], I[range(2)]],
    ids=repr,
)  # fmt: skip
def test_axis_order_and_masks_without_axes(index, array):
    tensors = tuple(index) if isinstance(index, tuple) else index
    close(gb.tensor(array)[tensors], array[list(index) if isinstance(index, range) else index])
    expected, x = array.copy(), gb.tensor(array)
    expected[index] = 7
    x[tensors] = 7
    close(x, expected)


def test_values_with_leading_axes_of_length_one(array):
    x, expected = gb.tensor(array), array.copy()
    x[0, :2] = gb.ones((1, 1, 2, 5))
    expected[0, :2] = 1
    close(x, expected)
    with pytest.raises(ValueError, match=r"\[setitem\]"):
        x[0, 0] = gb.ones((2, 5))


@pytest.mark.parametrize(
    ("index", "error"),
    [(3, IndexError), (-4, IndexError), (I[0, 0, 0, 0], IndexError), (I[..., ...], IndexError), ("a", TypeError),
     (1.5, TypeError), ([0.5], TypeError), (I[[0], [0], [0], [0]], IndexError),
     (I[::0], ValueError), (2**70, (IndexError, ValueError))],
)  # fmt: skip
def test_what_is_no_index(index, error, array):
    with pytest.raises(error):
        gb.tensor(array)[index]
    with pytest.raises(error):
        gb.tensor(array)[index] = 1.0


def test_shaping(array):
    x = gb.tensor(array)
    close(x.reshape(-1, 10), array.reshape(-1, 10))
    close(x.T.reshape((60,)), array.T.reshape(60))
    close(x.permute(2, 0, -2), array.transpose(2, 0, 1))
    close(x.transpose(), array.swapaxes(-1, -2))
    close(x.transpose(0, 1), array.swapaxes(0, 1))
    close(x.flatten(), array.ravel())
    for bad in ((7,), (-1, 7), (-1, -1), (-2, 30)):
        with pytest.raises(ValueError, match="shape"):
            x.reshape(bad)
    with pytest.raises(ValueError, match="permut"):
        x.permute(0, 0, 1)
    with pytest.raises(TypeError, match="reshape"):
        x.reshape("a")
