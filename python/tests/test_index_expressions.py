"""x[...] and x[...] = y of random index expressions against NumPy: values, axis order, and the kind of error."""

import numpy as np
import pytest

import gabbro as gb

SHAPES = [(), (3,), (0,), (4, 3), (2, 0), (2, 4, 3), (3, 3, 3), (2, 3, 4, 2)]
DTYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8]


def integers(rng, length, shape):
    """An index array, at times with an index that is out of range."""
    dtype = DTYPES[rng.integers(len(DTYPES))]
    low = 0 if dtype is np.uint8 else -length
    if length == 0 or 0 in shape:
        return np.zeros(shape if 0 in shape else (0,), dtype)
    array = rng.integers(low, length, shape).astype(dtype)
    if rng.random() < 0.05:
        array.flat[0] = rng.choice([length, length + 7] if low == 0 else [length, -length - 1, length + 7])
    return array


def part(rng, shape, axis):
    """One item of an index expression for an axis, and how many axes it takes."""
    length = shape[axis] if axis < len(shape) else 1
    kind = rng.integers(10)
    if kind < 3:
        at = int(rng.integers(-length - (rng.random() < 0.1), length + (rng.random() < 0.1))) if length else 0
        return (at, np.int64(at), np.int16(at))[rng.integers(3)], 1
    if kind < 6:
        bounds = [None if rng.random() < 0.4 else int(rng.integers(-length - 2, length + 3)) for _ in range(2)]
        return slice(*bounds, (None, 1, 2, -1, -2, 3)[rng.integers(6)]), 1
    if kind < 8:
        array = integers(rng, length, ((2,), (2,), (1,), (), (2, 2), (3, 1), (0,))[rng.integers(7)])
        form = rng.integers(3)
        if form == 0 and array.ndim:
            return array.tolist(), 1
        return (gb.tensor(array) if form == 1 else array), 1
    if kind == 8 and axis < len(shape):
        axes = int(rng.integers(1, min(2, len(shape) - axis) + 1))
        lengths = list(shape[axis : axis + axes])
        if rng.random() < 0.1:
            lengths[0] += 1
        mask = rng.random(lengths) < 0.5
        return (gb.tensor(mask) if rng.random() < 0.5 else mask), axes
    return (None, True, False, np.True_, gb.tensor(True), None)[rng.integers(6)], 0


def expression(rng, shape):
    parts, axis = [], 0
    for _ in range(rng.integers(1, 5)):
        if axis >= len(shape) and rng.random() < 0.9:
            break
        item, axes = part(rng, shape, axis)
        parts.append(item)
        axis += axes
        if rng.random() < 0.1 and not any(p is Ellipsis for p in parts):
            parts.append(Ellipsis)
            break
    return tuple(parts) if len(parts) != 1 or rng.random() < 0.5 else parts[0]


def is_too_deep(place):
    return place is not None and np.ndim(place) > 6  # a tensor's limit


def for_numpy(index):
    if isinstance(index, tuple):
        return tuple(for_numpy(p) for p in index)
    if isinstance(index, list) and not index:
        return np.zeros(0, int)
    return index.numpy() if isinstance(index, gb.Tensor) else index


def shown(index):
    return f"{for_numpy(index)!r}"


def read(array, index):
    result = array[index]
    return result.numpy() if isinstance(result, gb.Tensor) else result


def write(array, index, value):
    array[index] = value
    return array.numpy() if isinstance(array, gb.Tensor) else array


def outcome(function, *arguments):
    try:
        return function(*arguments), None
    except (IndexError, ValueError) as error:
        return None, error
    except TypeError as error:  # NumPy's, of values with several axes for a mask
        return None, ValueError(str(error))


def fits(value, shape):
    """Whether the value broadcasts to the shape, without leading axes of length 1."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value[0]
    try:
        np.broadcast_to(value, shape)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("seed", range(6))
def test_reading(seed):
    rng = np.random.default_rng(seed)
    for _ in range(500):
        shape = SHAPES[rng.integers(len(SHAPES))]
        array = np.arange(np.prod(shape, dtype=int), dtype="float32").reshape(shape)
        index = expression(rng, shape)
        expected, refused = outcome(read, array, for_numpy(index))
        if is_too_deep(expected):
            continue
        actual, error = outcome(read, gb.tensor(array), index)
        text = f"{shape}[{shown(index)}]: {refused!r}, {error!r}"
        if refused is not None and actual is not None and actual.size == 0:
            continue  # nothing is computed for a result without elements
        if 0 in shape and (refused is None) != (error is None):
            continue  # NumPy checks indices of nothing only at times
        assert (refused is None) == (error is None), text
        if refused is not None:
            assert isinstance(error, type(refused)), text
            continue
        assert actual.shape == np.shape(expected), text
        assert np.array_equal(actual, expected), text


@pytest.mark.parametrize("seed", range(6))
def test_writing(seed):
    rng = np.random.default_rng(100 + seed)
    for _ in range(300):
        shape = SHAPES[rng.integers(len(SHAPES))]
        array = np.arange(np.prod(shape, dtype=int), dtype="float32").reshape(shape)
        index = expression(rng, shape)
        place, _ = outcome(read, np.arange(array.size).reshape(shape), for_numpy(index))
        if place is not None and np.ndim(place) > 5:
            continue
        form = rng.integers(4)
        value = np.float32(-5.0)
        if place is not None and form < 3:
            value = -np.arange(np.size(place), dtype="float32").reshape(np.shape(place)) - 1
            value = (value, value[..., :1] if value.ndim else value, value[None])[form]
        elif form == 3:
            value = np.full((2, 5, 3), 7, "float32")
        expected, x = array.copy(), gb.tensor(array)
        _, refused = outcome(write, expected, for_numpy(index), value)
        actual, error = outcome(write, x, index, value)
        text = f"{shape}[{shown(index)}] = {value.shape}: {refused!r}, {error!r}"
        if place is not None and refused is not None and fits(value, np.shape(place)):
            continue  # NumPy does not take all values that fit one element, or a mask
        if refused is not None and actual is not None and np.array_equal(actual, array):
            continue  # nothing was written
        if 0 in shape and (refused is None) != (error is None):
            continue
        assert (refused is None) == (error is None), text
        if refused is not None:
            assert place is None or isinstance(error, type(refused)), text
        else:
            assert np.array_equal(actual, expected), text
