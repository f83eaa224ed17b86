"""A write is seen by a tensor and all its views; reading a value changes no other."""

import resource

import numpy as np
import pytest

import gabbro as gb
import view_programs


def test_random_programs_give_what_numpy_gives():
    assert view_programs.differing(range(600)) == []


def test_an_array_sees_writes_and_is_seen():
    array = np.arange(6, dtype="float32").reshape(2, 3)
    x = gb.asarray(array)
    row, sums = x[1], x.sum()
    x[0, 1] = 9
    row += 1
    np.testing.assert_array_equal(array, [[0, 9, 2], [4, 5, 6]])
    assert sums.item() == 15, "what was computed before"
    array[1, 2] = -1
    assert row.tolist() == [4, 5, -1]


def test_memory_that_is_read_only():
    array = np.zeros(3, "float32")
    array.flags.writeable = False
    x = gb.asarray(array)
    with pytest.raises(ValueError, match=r"\[setitem\] in place: .* shares memory that is read-only"):
        x[0] = 1
    assert array.tolist() == [0, 0, 0]


def test_elements_in_several_positions():
    x = gb.zeros(2)
    rows = gb.broadcast_to(x, (3, 2))
    with pytest.raises(ValueError, match=r"\[setitem\] in place: .* several positions"):
        rows[0, 0] = 1
    x += 1
    assert rows.tolist() == [[1, 1]] * 3


def test_gradients_of_what_was_written_through_a_view():
    x = gb.tensor([1.0, 2.0, 3.0]).requires_grad_()
    y = x * 2
    head = y[:2]
    head *= 3
    y.sum().backward()
    assert y.tolist() == [6, 12, 6]
    assert x.grad.tolist() == [6, 6, 2]


def test_views_of_a_leaf():
    x = gb.tensor([1.0, 2.0]).requires_grad_()
    first = x[0]
    with pytest.raises(ValueError, match=r"a view of a float32 tensor .* requires a gradient"):
        first += 1
    with gb.no_grad():
        first += 1
    assert x.tolist() == [2, 2] and x.requires_grad and x.is_leaf


def test_a_detached_tensor_is_the_data():
    layer = gb.nn.Linear(2, 1)
    (layer.weight * 2).sum().backward()
    layer.weight.detach()[0, 1] = 7.0
    data, weight = layer.weight.detach(), layer.weight
    assert data[0, 1].item() == 7 and weight.requires_grad and weight.grad.tolist() == [[2, 2]]
    optimizer = gb.optim.SGD(layer.parameters(), lr=0.5)
    optimizer.step()
    assert data[0, 1].item() == 6
    layer.load_state_dict({"weight": gb.ones((1, 2)), "bias": gb.ones(1)})
    assert data.tolist() == [[1, 1]]


def test_views_of_a_gradient():
    weight = gb.nn.Parameter(gb.ones((2, 2)))
    (weight * 3).sum().backward()
    row = weight.grad[0]
    row *= 2
    weight.grad[1][0] = 0
    assert weight.grad.tolist() == [[6, 6], [0, 3]]


def test_compiled_functions_write_through_views():
    x = gb.zeros((2, 2))
    row, column = x[0], x[:, 1]

    @gb.compile
    def bump(amount):
        row.__iadd__(amount)
        return row.sum()

    for expected in (2.0, 4.0):
        assert bump(gb.tensor(1.0)).item() == expected
    assert x.tolist() == [[2, 2], [0, 0]]
    assert column.tolist() == [2, 0]


def test_compiled_functions_refuse_arguments_that_share_what_they_write():
    @gb.compile
    def write(x, y):
        x += 1
        return x + y

    x = gb.zeros(4)
    with pytest.raises(ValueError, match=r"\[compile\] the function changes argument 0 .* shares elements"):
        write(x[:2], x[1:3])
    with pytest.raises(ValueError, match="shares elements"):
        write(x, x)
    assert x.tolist() == [0, 0, 0, 0]
    assert write(x[:2], gb.ones(2)).tolist() == [2, 2]
    assert x.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_reading_an_intermediate_changes_no_value(rng, dtype, device, device_named):
    device_named(device)
    x, y = (gb.tensor(rng.standard_normal(257, dtype="f4")).astype(dtype) for _ in range(2))
    w = gb.tensor(rng.standard_normal((257, 33), dtype="f4")).astype(dtype)
    bias = gb.tensor(rng.standard_normal(33, dtype="f4")).astype(dtype)

    def run(look):
        a = look(x * 1.2345)
        b = look(look(a - y) * x)
        c = look(gb.exp(y))
        d = look(look(b.reshape(1, -1) @ w) + bias)
        return look(b + c / 3), gb.gelu(d, approximate="tanh"), gb.silu(d), gb.relu(d)

    def looked_at(value):
        str(value)
        return value

    for quiet, printed in zip(run(lambda value: value), run(looked_at), strict=True):
        np.testing.assert_array_equal(quiet.astype("float32").numpy(), printed.astype("float32").numpy())


def test_half_precision_is_rounded_after_each_operation(rng):
    x, y = rng.standard_normal((2, 999)).astype("f2")
    ours = (gb.tensor(x) * gb.tensor(y) - gb.tensor(x)) * gb.tensor(y) + gb.tensor(x)
    np.testing.assert_array_equal(ours.numpy(), (x * y - x) * y + x)


def launches(*tensors):
    return gb._core._explain(list(tensors))[0]


def test_a_value_that_is_held_is_computed_once():
    a = gb.rand(70, 70)
    gb.eval(a)
    y = a @ a
    values, indices = gb.array_api.topk(a, 3)
    gb.eval(y + 1, values + 1)
    for held in (y, values, indices):
        assert launches(held).startswith("0 launches"), launches(held)


def test_a_loop_that_reads_what_it_goes_on_with():
    x = gb.zeros(3)
    for step in range(600):
        x = x + 1
        assert x.sum().item() == 3 * (step + 1)
    assert launches(x).startswith("0 launches")


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def test_compiled_functions_keep_no_result_of_each_length():
    function = gb.compile(lambda x: x @ x.transpose(0, 1))
    function(gb.ones((1000, 2)))
    before = resident()
    for length in range(900, 1000):
        function(gb.ones((length, 2)))
    assert resident() - before < 100, "the results are 360 MiB"
