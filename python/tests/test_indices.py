"""Indices and labels: negative ones count from the end, others out of range raise IndexError; any integer dtype."""

import numpy as np
import pytest

import gabbro as gb
import gabbro.nn.functional as F
from conftest import close

INTEGERS = ["int8", "uint8", "int16", "int32", "int64"]
X = np.arange(12, dtype="float32").reshape(4, 3)


def ids(values, dtype="int32"):
    return gb.tensor(np.array(values, dtype))


def scattered(index):
    expected = np.zeros((4, 3), "float32")
    for row, at in enumerate(index):
        expected[row, at] += 1
    return expected


# op: a function of indices of four elements along an axis of three
ALONG = {
    "take_along_axis": lambda i: gb.take_along_axis(gb.tensor(X), i.reshape(4, 1)),
    "put_along_axis": lambda i: gb.put_along_axis(gb.zeros((4, 3)), i.reshape(4, 1), gb.ones((4, 1))),
    "scatter_add": lambda i: gb.scatter_add(gb.zeros((4, 3)), i.reshape(4, 1), gb.ones((4, 1))),
}
# along an axis of four
ROWS = {
    "take": lambda i: gb.take(gb.tensor(X), i, axis=0),
    "take columns": lambda i: gb.take(gb.tensor(X.T.copy()), i, axis=1),
    "gather": lambda i: gb.gather(gb.tensor(X), i),
    "index": lambda i: gb.tensor(X)[i],
    "index two": lambda i: gb.tensor(X)[i, i * 0],
    "embedding": lambda i: gb.embedding(i, gb.tensor(X)),
    "functional.embedding": lambda i: F.embedding(i, gb.tensor(X)),
    "index_add": lambda i: gb.index_add(gb.zeros((4, 3)), i, gb.ones((len(i), 3))),
}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_integer_dtype(dtype):
    last = 2 if dtype == "uint8" else -1
    index = [0, last, 1, last]
    close(ALONG["take_along_axis"](ids(index, dtype)), X[np.arange(4), index][:, None])
    for name in ("put_along_axis", "scatter_add"):
        close(ALONG[name](ids(index, dtype)), scattered(index))
    rows = [0, 3 if dtype == "uint8" else -1, 1]
    for name in ("take", "gather", "index", "embedding", "functional.embedding"):
        close(ROWS[name](ids(rows, dtype)), X[rows])
    close(ROWS["take columns"](ids(rows, dtype)), X.T[:, rows])
    close(ROWS["index two"](ids(rows, dtype)), X[rows, 0])
    expected = np.zeros((4, 3), "float32")
    expected[rows] = 1
    close(ROWS["index_add"](ids(rows, dtype)), expected)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", [*ALONG, *ROWS])
def test_out_of_range(name, dtype):
    function, size = (ALONG[name], 3) if name in ALONG else (ROWS[name], 4)
    op = {"take columns": "take", "index two": "index", "functional.embedding": "embedding"}.get(name, name)
    for bad in [size, 99] if dtype == "uint8" else [size, -size - 1, 99]:
        result = function(ids([0, bad, 1, 0], dtype))
        with pytest.raises(IndexError, match=rf"\[{op}\] index {bad} is outside axis \d of size {size}"):
            result.numpy()
        close(function(ids([0, 0, 1, 0], dtype)), function(ids([0, 0, 1, 0])).numpy())  # the device goes on


@pytest.mark.parametrize("bad", [2**32, -(2**40), 2**31])
def test_indices_beyond_32_bits(bad):
    for name, function in {**ALONG, **ROWS}.items():
        with pytest.raises(IndexError, match=f"index {bad} "):
            function(ids([0, bad, 1, 0], "int64")).numpy()
        assert name


def test_writing_out_of_range():
    x = gb.tensor([1.0, 2.0, 3.0])
    with pytest.raises(IndexError, match="index 7 is outside axis 0 of size 3"):
        x[gb.tensor([7])] = 5
        x.numpy()
    y = gb.tensor([1.0, 2.0, 3.0])
    y[[-1, 0]] = gb.tensor([5.0, 6.0])
    assert y.tolist() == [6, 2, 5]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize(
    ("shape", "key"),
    [((0, 3), np.s_[:, 7]), ((3, 0), np.s_[7]), ((1, 1, 1), np.s_[:0, 6]), ((2, 0, 3), np.s_[0, :, 3])],
)
def test_out_of_range_without_elements(shape, key, dtype):
    """NumPy looks at the indices even where nothing is selected."""
    parts = key if isinstance(key, tuple) else (key,)
    key = tuple(part if isinstance(part, slice) else np.array([part], dtype) for part in parts)
    with pytest.raises(IndexError):
        np.zeros(shape)[key]
    key = tuple(part if isinstance(part, slice) else gb.tensor(part) for part in key)
    with pytest.raises(IndexError, match=r"\[index\] index \d is outside axis \d of size \d"):
        gb.zeros(shape)[key].numpy()
        gb.synchronize()  # reading nothing from a GPU does not wait for it
    x = gb.zeros(shape)
    with pytest.raises(IndexError, match=r"\[index\] index \d is outside axis \d of size \d"):
        x[key] = 1.0
        gb.synchronize()
    assert gb.zeros((0, 3))[:, gb.tensor([2, -3])].numpy().shape == (0, 2)


def test_the_message_names_op_index_axis_and_size():
    with pytest.raises(IndexError, match=r"^\[take\] index -5 is outside axis 1 of size 4$"):
        gb.take(gb.zeros((2, 4)), ids([0, -5]), axis=1).numpy()
    with pytest.raises(IndexError, match=r"^\[index\] index 9 is outside axis 2 of size 5$"):
        gb.zeros((2, 4, 5))[:, ids([0]), ids([9])].numpy()


def test_embedding_of_any_shape():
    table = gb.tensor(X)
    for shape in [(), (1,), (2, 2), (1, 2, 1), (0,), (0, 3)]:
        numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape) - 1
        for function in (gb.embedding, F.embedding):
            close(function(gb.tensor(numbers), table), X[numbers])
    layer = gb.nn.Embedding(4, 3, padding_idx=3)
    layer.weight = gb.nn.Parameter(table)
    close(layer(gb.tensor(np.array([[-1, 0]]))), X[[[-1, 0]]])
    layer(gb.tensor([-1, 0, 3])).sum().backward()
    close(layer.weight.grad, np.array([[1] * 3, [0] * 3, [0] * 3, [0] * 3], "float32"))
    with pytest.raises(IndexError, match=r"\[embedding\] index 99 is outside axis 0 of size 4"):
        layer(gb.tensor([99])).numpy()


def test_gradients_of_negative_indices():
    torch = pytest.importorskip("torch")
    index = np.array([[0, 2], [1, -1], [-3, 2], [-2, -2]])
    resolved = torch.tensor(index % 3)
    weights = np.arange(8, dtype="float32").reshape(4, 2)
    for ours, theirs in [
        (lambda x, v: gb.take_along_axis(x, gb.tensor(index)) * v, lambda x, v: x.gather(1, resolved) * v),
        (lambda x, v: gb.scatter_add(x, gb.tensor(index), v) ** 2, lambda x, v: x.scatter_add(1, resolved, v) ** 2),
    ]:
        x, v = gb.tensor(X).requires_grad_(), gb.tensor(weights).requires_grad_()
        tx, tv = torch.tensor(X, requires_grad=True), torch.tensor(weights, requires_grad=True)
        ours(x, v).sum().backward()
        theirs(tx, tv).sum().backward()
        close(x.grad, tx.grad.numpy())
        close(v.grad, tv.grad.numpy())


def losses(labels, **options):
    logits = gb.tensor(X)
    yield gb.cross_entropy(logits, labels, **options)
    yield gb.nll_loss(gb.log_softmax(logits), labels, **options)
    yield F.cross_entropy(logits, labels, **options)
    yield F.cross_entropy(logits, labels, weight=gb.tensor([1.0, 2.0, 3.0]), **options)
    yield F.nll_loss(gb.log_softmax(logits), labels, **options)
    yield gb.nn.CrossEntropyLoss()(logits, labels)


@pytest.mark.parametrize("bad", [3, 99, -1, 2**32])
def test_labels_out_of_range(bad):
    count = 0
    for loss in losses(ids([0, bad, 1, 2], "int64")):
        with pytest.raises(IndexError, match=rf"label {bad} is outside axis 1 of size 3"):
            loss.numpy()
        count += 1
    assert count == 6


@pytest.mark.parametrize("dtype", INTEGERS)
def test_labels_of_every_dtype(dtype):
    torch = pytest.importorskip("torch")
    labels = np.array([0, 2, 1, 2], dtype)
    for reduction in ("none", "mean", "sum"):
        for weight in (None, np.array([1, 2, 3], "float32")):
            expected = torch.nn.functional.cross_entropy(
                torch.tensor(X), torch.tensor(labels.astype("int64")), reduction=reduction,
                weight=None if weight is None else torch.tensor(weight))  # fmt: skip
            actual = F.cross_entropy(gb.tensor(X), gb.tensor(labels), reduction=reduction,
                                     weight=None if weight is None else gb.tensor(weight))  # fmt: skip
            close(actual, expected.numpy(), epsilons=16)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("ignored", [-100, -1, 1, 7])
def test_ignored_labels(dtype, ignored):
    torch = pytest.importorskip("torch")
    labels = np.array([0, ignored, 2, ignored], dtype)
    x, t = gb.tensor(X).requires_grad_(), torch.tensor(X, requires_grad=True)
    loss = F.cross_entropy(x, gb.tensor(labels), ignore_index=ignored)
    expected = torch.nn.functional.cross_entropy(t, torch.tensor(labels.astype("int64")), ignore_index=ignored)
    close(loss, expected.detach().numpy(), epsilons=16)
    loss.backward()
    expected.backward()
    close(x.grad, t.grad.numpy(), epsilons=16)


def test_an_ignored_label_beyond_uint8_ignores_none():
    labels = np.array([0, 1, 2, 0], "uint8")
    wide = F.cross_entropy(gb.tensor(X), gb.tensor(labels.astype("int64")))
    close(F.cross_entropy(gb.tensor(X), gb.tensor(labels)), wide.numpy())


@pytest.mark.parametrize("labels", [[0.9, 1.2, 2.7, 0.0], [True, False, True, False]])
def test_labels_that_are_no_integers(labels):
    for function in (F.cross_entropy, F.nll_loss, gb.cross_entropy, gb.nll_loss):
        with pytest.raises(ValueError, match=r"\[(cross_entropy|nll_loss)\]"):
            function(gb.tensor(X), gb.tensor(labels))


def test_probabilities_as_targets():
    torch = pytest.importorskip("torch")
    target = np.array([[0.5, 0.25, 0.25], [1, 0, 0], [0, 0, 1], [0.1, 0.2, 0.7]], "float32")
    for options in ({}, {"label_smoothing": 0.2}, {"weight": np.array([1, 2, 3], "float32")}):
        for reduction in ("none", "mean", "sum"):
            x, t = gb.tensor(X).requires_grad_(), torch.tensor(X, requires_grad=True)
            ours = {k: gb.tensor(v) if k == "weight" else v for k, v in options.items()}
            theirs = {k: torch.tensor(v) if k == "weight" else v for k, v in options.items()}
            loss = F.cross_entropy(x, gb.tensor(target), reduction=reduction, **ours)
            expected = torch.nn.functional.cross_entropy(t, torch.tensor(target), reduction=reduction, **theirs)
            close(loss, expected.detach().numpy(), epsilons=32)
            loss.sum().backward()
            expected.sum().backward()
            close(x.grad, t.grad.numpy(), epsilons=64)


def test_one_hot():
    close(F.one_hot(ids([[0, 2], [1, 1]], "int64"), 3), np.eye(3, dtype="int64")[[[0, 2], [1, 1]]])
    for bad in (3, -1, 2**33):
        with pytest.raises(IndexError, match=rf"\[one_hot\] label {bad} is outside axis 1 of size 3"):
            F.one_hot(ids([0, bad], "int64"), 3).numpy()
