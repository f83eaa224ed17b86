"""Bad calls end with an exception that names the op, and never with the process."""

import numpy as np
import pytest

import gabbro as gb

X = gb.ones((2, 3))
FLAGS = gb.tensor([[True, False]])
FOUR = gb.ones((4, 4))
IMAGE = gb.ones((1, 2, 5, 5))

# op: calls with shapes or dtypes that it does not take
CALLS = {
    **{name: [lambda f: f(FLAGS)] for name in
       ["negative", "abs", "sign", "floor", "ceil", "round", "trunc", "relu", "silu", "gelu"]},
    **{name: [lambda f: f(X)] for name in ["bitwise_invert"]},
    **{name: [lambda f: f(X, X)] for name in
       ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]},
    **{name: [lambda f: f(FLAGS, FLAGS)] for name in ["subtract", "pow"]},
    **{name: [lambda f: f(X, FOUR)] for name in
       ["add", "mul", "div", "floor_divide", "trunc_divide", "remainder", "maximum", "minimum", "atan2",
        "hypot", "eq", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
        "logical_xor", "matmul", "dot", "vecdot", "tensordot"]},
    **{name: [lambda f: f(X, 2), lambda f: f(X, axis=-3)] for name in
       ["sum", "prod", "max", "min", "mean", "var", "std", "logsumexp", "any", "all", "count_nonzero", "argmax",
        "argmin", "flip"]},
    **{name: [lambda f: f(X, (0, 0))] for name in ["sum", "max", "var", "any"]},
    **{name: [lambda f: f(gb.zeros((0, 3)), 0)] for name in ["max", "min", "argmax", "argmin"]},
    "einsum": [lambda f: f("ij,jk", X), lambda f: f("ij->k", X), lambda f: f("ij,jk", X, FOUR), lambda f: f("i->", X)],
    "bilinear": [lambda f: f(X, X, X)],
    "scaled_dot_product_attention": [lambda f: f(X, X, FOUR), lambda f: f(gb.tensor([1]), X, X)],
    "clip": [lambda f: f(X, FOUR, 1), lambda f: f(X, FOUR)],
    "where": [lambda f: f(X, X, X), lambda f: f(X > 0, FOUR, FOUR)],
    "cumsum": [lambda f: f(X, 2)],
    "sort": [lambda f: f(X, -3)],
    "argsort": [lambda f: f(X, -3)],
    "topk": [lambda f: f(X, 4), lambda f: f(X, -1), lambda f: f(X, 1, 7)],
    "reshape": [lambda f: f(X, 7), lambda f: f(X, (-1, -1))],
    "permute": [lambda f: f(X, (0, 0)), lambda f: f(X, (0,))],
    "broadcast_to": [lambda f: f(X, (2, 4)), lambda f: f(X, 3)],
    "concat": [lambda f: f([X, FOUR]), lambda f: f([X, X], 2), lambda f: f([])],
    "stack": [lambda f: f([X, FOUR]), lambda f: f([X, X], 3), lambda f: f([])],
    "squeeze": [lambda f: f(X, 5)],
    "expand_dims": [lambda f: f(X, 3), lambda f: f(X, (0, 0))],
    "moveaxis": [lambda f: f(X, 0, 2), lambda f: f(X, (0, 1), 0)],
    "swapaxes": [lambda f: f(X, 0, 2)],
    "matrix_transpose": [lambda f: f(gb.ones(3))],
    "flatten": [lambda f: f(X, 1, 0), lambda f: f(X, 2)],
    "broadcast_arrays": [lambda f: f(X, FOUR)],
    "unstack": [lambda f: f(X, 2)],
    "split": [
        lambda f: f(X, indices_or_sections=2, axis=1),
        lambda f: f(X, indices_or_sections=0),
        lambda f: f(X, indices_or_sections=1, axis=2),
        lambda f: f(X, split_size_or_sections=0),
        lambda f: f(X, split_size_or_sections=[1, 3]),
    ],
    "pad": [lambda f: f(X, -1), lambda f: f(X, ((1, 1),) * 3), lambda f: f(X, 1, "wrap"),
            lambda f: f(X, 3, "reflect")],
    "repeat": [lambda f: f(X, -1), lambda f: f(X, 2, 2), lambda f: f(X, [1, 2]), lambda f: f(X, X)],
    "tile": [lambda f: f(X, -1)],
    "roll": [lambda f: f(X, 1, 2), lambda f: f(X, (1, 2), 0), lambda f: f(X, (1, 2))],
    "take": [lambda f: f(X, X, axis=0), lambda f: f(X, gb.tensor([0]), axis=2)],
    "put_along_axis": [lambda f: f(X, gb.tensor([[1]]), X), lambda f: f(X, X, X)],
    "gather": [lambda f: f(X, X)],
    "take_along_axis": [lambda f: f(X, X), lambda f: f(X, gb.tensor([1]), 0)],
    "scatter_add": [lambda f: f(X, gb.tensor([1]), X)],
    "index_add": [lambda f: f(X, gb.tensor([1]), X)],
    "tril": [lambda f: f(gb.ones(3))],
    "softmax": [lambda f: f(FLAGS), lambda f: f(X, 2)],
    "log_softmax": [lambda f: f(FLAGS)],
    "linear": [lambda f: f(X, FOUR), lambda f: f(X, gb.ones((4, 3)), gb.ones(3))],
    "embedding": [lambda f: f(X, X)],
    "rms_norm": [lambda f: f(X, gb.ones(2))],
    "layer_norm": [lambda f: f(X, gb.ones(2)), lambda f: f(FLAGS)],
    "group_norm": [lambda f: f(X, 2), lambda f: f(X, 0)],
    "batch_norm": [lambda f: f(X, gb.ones(2), gb.ones(2))],
    "conv2d": [lambda f: f(IMAGE, FOUR), lambda f: f(IMAGE, gb.ones((1, 2, 7, 7))),
               lambda f: f(IMAGE, gb.ones((1, 2, 3, 3)), stride=0),
               lambda f: f(IMAGE, gb.ones((1, 2, 3, 3)), groups=3)],
    "conv_transpose2d": [lambda f: f(IMAGE, FOUR)],
    "max_pool2d": [lambda f: f(IMAGE, 0), lambda f: f(X, 2), lambda f: f(IMAGE, 9), lambda f: f(IMAGE, (2, 2, 2))],
    "avg_pool2d": [lambda f: f(IMAGE, 2, padding=2)],
    "adaptive_avg_pool2d": [lambda f: f(IMAGE, -1), lambda f: f(IMAGE, (1, 2, 3))],
    "interpolate": [lambda f: f(IMAGE, 4, mode="cubic")],
    "mse_loss": [lambda f: f(X, FOUR), lambda f: f(X, X, reduction="max")],
    "cross_entropy": [lambda f: f(X, X), lambda f: f(X, gb.tensor([1]))],
    "zeros": [lambda f: f(-1), lambda f: f((1 << 62, 2)), lambda f: f((1,) * 7)],
    "arange": [lambda f: f(0, 5, 0), lambda f: f(1e30), lambda f: f(float("nan"))],
    "full": [lambda f: f(-1, 0)],
    "linspace": [lambda f: f(0, 1, -1)],
    "eye": [lambda f: f(-1)],
    "meshgrid": [lambda f: f(X), lambda f: f(gb.ones(2), indexing="ji")],
    "rand": [lambda f: f(-1)],
    "randint": [lambda f: f(5, 5, 3), lambda f: f(0, 1 << 40, 3)],
}  # fmt: skip


@pytest.mark.parametrize(("name", "call"), [(name, call) for name, calls in CALLS.items() for call in calls])
def test_values_that_do_not_fit_are_value_errors_with_the_ops_name(name, call):
    with pytest.raises(IndexError if name == "squeeze" else ValueError) as caught:
        call(getattr(gb, name))
    assert str(caught.value).startswith("["), caught.value
    assert "hint: " in str(caught.value) or "\n" not in str(caught.value)


FUNCTIONS = sorted(
    name for name in gb.__all__
    if callable(getattr(gb, name)) and not isinstance(getattr(gb, name), type)
    and name not in {"set_device", "cuda_set_device", "rocm_set_device", "seed", "eval", "compile", "explain", "tensor",
                     "asarray", "from_dlpack", "grad", "value_and_grad", "checkpoint", "load", "save"}
)  # fmt: skip
ODD = [None, "a", 3, -1, 1 << 70, 2.5, float("nan"), [], {}, object(), X, FLAGS, gb.zeros((0,)), gb.tensor(1), FOUR,
       IMAGE, gb.tensor([1.0], dtype="float64"), gb.tensor([1], dtype="int8"), np.zeros(3), (1, 2), (X, X)]  # fmt: skip


OF_FLOATS = [name for name in FUNCTIONS if "Of float32, float64, float16 or bfloat16.\n" in getattr(gb, name).__doc__]


@pytest.mark.parametrize("name", OF_FLOATS)
def test_dtypes_that_a_docstring_does_not_name_are_refused(name):
    for x in (FLAGS, gb.tensor([1, 2])):
        with pytest.raises(ValueError, match=rf"^\[{name}\] does not take (bool|i64)"):
            getattr(gb, name)(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_random_arguments_give_a_result_or_an_ordinary_exception(name):
    rng = np.random.default_rng(sum(name.encode()))
    for _ in range(300):
        arguments = [ODD[i] for i in rng.integers(0, len(ODD), rng.integers(0, 5))]
        try:
            result = getattr(gb, name)(*arguments)
            if isinstance(result, gb.Tensor) and result.size < 1 << 20:
                result.eval()
        except (TypeError, ValueError, RuntimeError, MemoryError, OverflowError, IndexError) as error:
            assert str(error), f"{name}{arguments}: an error without words"


def test_wrong_kinds_of_arguments_are_type_errors_that_name_the_function():
    for call in (lambda: gb.exp("a"), lambda: gb.exp(), lambda: gb.softmax(X, X, X), lambda: gb.zeros("a")):
        with pytest.raises(TypeError, match=r"exp|softmax|zeros"):
            call()


def test_no_memory_is_a_memory_error():
    with pytest.raises(MemoryError, match="bytes"):
        (gb.ones((1 << 20, 1 << 20)) + gb.ones((1 << 20, 1))).eval()


def test_an_uninitialized_tensor_is_refused():
    with pytest.raises((TypeError, RuntimeError)):
        gb.Tensor.__new__(gb.Tensor).eval()
    with pytest.raises(TypeError, match="tensor"):
        gb.Tensor("a")


def test_lists_without_an_end_are_recursion_errors():
    endless = []
    endless.append(endless)
    deep = [1.0]
    for _ in range(100_000):
        deep = [deep]
    for value in (endless, deep, (endless,), {"a": endless}):
        for call in (gb.tensor, gb.eval, lambda v: gb.ones(2) + v, lambda v: gb.compile(gb.exp)(v),
                     lambda v: gb.ones(2).__setitem__(0, v), lambda v: gb.ones(2)[v]):  # fmt: skip
            with pytest.raises((RecursionError, ValueError, TypeError)) as caught:
                call(value)
            assert str(caught.value)
    while isinstance(deep[0], list):  # its destructor would be as deep
        deep = deep[0]


def test_numbers_of_optimizers_that_are_none_are_named():
    parameters = [gb.nn.Parameter(gb.ones(2))]
    for call, name in (
        (lambda: gb.optim.SGD(parameters, lr="fast"), "lr"),
        (lambda: gb.optim.SGD(parameters, dampening=slice(None)), "dampening"),
        (lambda: gb.optim.SGD(parameters, nesterov=None), "nesterov"),
        (lambda: gb.optim.Adam(parameters, betas=("a", 0.9)), "betas"),
        (lambda: gb.optim.RMSprop(parameters, alpha=gb.ones(3)), "alpha"),
        (lambda: gb.optim.AdamW([{"params": parameters, "weight_decay": "much"}]), "weight_decay"),
    ):
        with pytest.raises(TypeError, match=name):
            call()


def test_texts_that_have_no_utf_8_are_value_errors():
    for call in (lambda s: gb.zeros(2, device=s), lambda s: gb.zeros(2, dtype=s), gb.Device):
        with pytest.raises((ValueError, TypeError)):
            call("\ud800")
    assert gb.get_device() != "\ud800"
    with pytest.raises(ValueError):
        setattr(gb.nn.Module(), "\ud800", gb.nn.Parameter(gb.ones(2)))


@pytest.mark.parametrize("function", [gb.broadcast_arrays, gb.meshgrid, lambda *a: gb.einsum("i,i", *a)])
def test_what_is_no_tensor_among_several_is_named(function):
    with pytest.raises(TypeError, match="'x' is not a tensor"):
        function(X, "x")


def test_formats_that_no_number_has_are_value_errors():
    assert f"{gb.tensor(1.5):.2f}" == "1.50"
    with pytest.raises(ValueError, match="format"):
        f"{gb.tensor(1.5):xyz}"


def test_modules_do_not_contain_themselves():
    outer, inner = gb.nn.Sequential(gb.nn.ReLU()), gb.nn.Sequential(gb.nn.Linear(1, 1))
    outer.append(inner)
    for module in (inner, outer):
        with pytest.raises(ValueError, match=r"\[module\]"):
            inner.append(outer)
        with pytest.raises(ValueError, match=r"\[module\]"):
            module.itself = module
        assert not hasattr(module, "itself")
    assert len(inner) == 1 and len(list(outer.parameters())) == 2


def test_a_buffer_does_not_take_an_attribute_of_its_class_away():
    norm = gb.nn.BatchNorm1d(2)
    for name in ("weight", "running_mean", "training"):
        with pytest.raises(ValueError, match=name):
            norm.register_buffer(name, gb.ones(2))
    assert len(norm.state_dict()) == 5 - ("num_batches_tracked" not in norm.state_dict())


def test_tensors_of_a_module_live_as_long_as_it_knows_them():
    module = gb.nn.Module()
    module.weight = gb.nn.Parameter(gb.full(3, 2.0))
    module.register_buffer("scale", gb.full(3, 5.0))
    vars(module).clear()
    junk = [gb.nn.Parameter(gb.zeros(3)) for _ in range(64)]
    assert [value.tolist() for value in module.state_dict().values()] == [[2.0] * 3, [5.0] * 3]
    del junk


def test_more_layers_than_anybody_has_are_refused_at_once():
    with pytest.raises(ValueError, match=r"\[recurrent\]"):
        gb.nn.LSTM(1, 1, num_layers=2**31)


def test_numbers_of_features_do_not_overflow():
    for make in (
        lambda: gb.nn.LSTM(1, 2**63 - 1),
        lambda: gb.nn.GRU(2**63 - 1, 1, bidirectional=True),
        lambda: gb.nn.MultiheadAttention(2**63 - 1, 1),
    ):
        with pytest.raises(ValueError, match=r"\[recurrent\]|\[multihead_attention\]"):
            make()
