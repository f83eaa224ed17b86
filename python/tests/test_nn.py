"""Modules: what Python's classes register, state dicts, modes, and layers against PyTorch where it is installed."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import gabbro as gb
from conftest import close
from gabbro import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(gb.tensor([2.0, 3.0]))
        self.inner = nn.Linear(3, 2)
        self.register_buffer("seen", gb.zeros(()))
        self.register_buffer("hidden", gb.ones(1), persistent=False)
        self.note = "text"

    def forward(self, x):
        self.seen = self.seen + 1
        return self.inner(x) * self.scale


def test_attributes_are_registered_in_order():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == ["scale", "inner.weight", "inner.bias"]
    assert [name for name, _ in net.named_buffers()] == ["seen", "hidden"]
    assert list(net.state_dict()) == ["scale", "seen", "inner.weight", "inner.bias"]
    assert [name for name, _ in net.named_modules()] == ["", "inner"]
    assert list(net.children()) == [net.inner]
    assert [name for name, _ in net.named_parameters(recurse=False)] == ["scale"]
    assert next(name for name, _ in net.named_parameters(prefix="net")) == "net.scale"


def test_a_parameter_is_one_object():
    net = Net()
    assert next(net.parameters()) is net.scale
    weight = net.inner.weight
    assert weight is net.inner.weight
    net.to(gb.float64)
    assert weight.dtype == net.scale.dtype == gb.float64
    assert isinstance(weight, nn.Parameter)


def test_a_parameter_outlives_its_module():
    weight = nn.Linear(3, 2).weight
    gc.collect()
    assert weight.numpy().shape == (2, 3)


def test_a_module_inside_outlives_its_name_and_goes_with_its_parent():
    net = Net()
    inner = weakref.ref(net.inner)
    gc.collect()
    assert inner() is not None
    del net
    gc.collect()
    assert inner() is None


def test_replaced_and_deleted_attributes():
    net = Net()
    net.inner = nn.Linear(3, 2, bias=False)
    net.scale = nn.Parameter(gb.ones(2))
    assert sorted(name for name, _ in net.named_parameters()) == ["inner.weight", "scale"]
    del net.scale
    net.inner = None
    assert list(net.parameters()) == []
    with pytest.raises(AttributeError, match="scale"):
        _ = net.scale


def test_what_cannot_be_assigned():
    net = Net()
    with pytest.raises(TypeError, match="is a parameter"):
        net.scale = gb.ones(2)
    with pytest.raises(ValueError, match=r"shape \(1, 1\) on cpu cannot be 'weight'"):
        net.inner.weight = nn.Parameter(gb.ones((1, 1)))
    net.inner.weight = nn.Parameter(gb.ones((2, 3)))
    assert net.inner.weight.tolist() == [[1.0] * 3] * 2
    assert net.inner.weight.requires_grad

    class Forgetful(nn.Module):
        def __init__(self):
            self.inner = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match="super"):
        Forgetful()


def test_a_parameter_of_two_modules_is_counted_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(5, 3)
            self.head = self.embedding.weight

        def forward(self, ids):
            return nn.functional.linear(self.embedding(ids), self.head)

    tied = Tied()
    assert len(list(tied.parameters())) == 1
    tied(gb.tensor([[1, 2]])).sum().backward()
    assert tied.embedding.weight.grad.shape == (5, 3)


def test_buffers_take_values():
    net = Net()
    seen = next(net.buffers())
    net(gb.ones((1, 3)))
    net(gb.ones((1, 3)))
    assert seen.item() == 2 and net.state_dict()["seen"].item() == 2


def test_state_dicts():
    net, other = Net(), Net()
    other.load_state_dict(net.state_dict())
    close(other.inner.weight, net.inner.weight.numpy())
    assert other.inner.weight.requires_grad
    other.load_state_dict({"scale": np.ones(2, np.float32)}, strict=False)
    assert other.scale.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="missing seen"):
        other.load_state_dict({"scale": gb.ones(2)})
    with pytest.raises(ValueError, match="of another shape"):
        other.load_state_dict({"scale": gb.ones(3)}, strict=False)


def test_files(tmp_path):
    net, other = Net(), Net()
    path = tmp_path / "net.safetensors"
    gb.save_state(path, net, {"epoch": "3"})
    other.load_state_dict(gb.load_state(path))
    close(other.inner.weight, net.inner.weight.numpy())


def test_modes():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    assert model.training and model[1].training
    assert model.eval() is model and not model[1].training
    x = gb.ones((4, 2))
    assert model(x).tolist() == model(x).tolist()
    model.train()
    assert model[1](gb.ones(1000)).tolist() != model[1](gb.ones(1000)).tolist()


def test_frozen_parameters_get_no_gradient():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    model(gb.ones((1, 2))).sum().backward()
    assert model[0].weight.grad is None and model[1].weight.grad is not None
    model.zero_grad()
    assert model[1].weight.grad is None


def test_equal_seeds_give_equal_values():
    gb.seed(3)
    first = nn.Linear(4, 4).weight.tolist()
    gb.seed(3)
    assert nn.Linear(4, 4).weight.tolist() == first
    assert nn.Linear(4, 4).weight.tolist() != first


def test_dropout_is_new_in_each_call_of_a_compiled_function():
    dropout = nn.Dropout(0.5)
    compiled = gb.compile(lambda x: dropout(x))
    assert compiled(gb.ones(100)).tolist() != compiled(gb.ones(100)).tolist()


def test_checkpoints_see_the_same_dropout_again():
    dropout = nn.Dropout(0.5)
    x = gb.ones(100).requires_grad_()
    y = gb.checkpoint(lambda a: dropout(a) * a)(x)
    y.sum().backward()
    close(x.grad, 2 * y.detach().numpy())


def test_containers():
    layers = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])
    layers.append(nn.Tanh())
    assert len(layers) == 3 and isinstance(layers[-1], nn.Tanh) and len(layers[1:]) == 2
    named = nn.ModuleDict({"a": nn.Linear(2, 2)})
    named["b"] = nn.ReLU()
    assert list(named) == ["a", "b"] and "b" in named
    model = nn.Sequential({"first": nn.Linear(2, 3), "second": nn.ReLU()})
    assert list(model.state_dict()) == ["first.weight", "first.bias"]
    seen = []
    model.apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Linear", "ReLU", "Sequential"]


def test_initial_values():
    weight = nn.Parameter(gb.zeros((200, 300)))
    assert nn.init.kaiming_normal_(weight, nonlinearity="relu") is weight
    assert weight.requires_grad
    np.testing.assert_allclose(weight.numpy().std(), np.sqrt(2 / 300), rtol=0.05)
    rows = nn.init.orthogonal_(gb.zeros((3, 5))).numpy()
    np.testing.assert_allclose(rows @ rows.T, np.eye(3), atol=1e-5)
    with pytest.raises(ValueError, match="fan_in"):
        nn.init.kaiming_uniform_(weight, mode="fan")


def layers_with_inputs(torch):
    """A name, Gabbro's module and PyTorch's, and the shapes of their inputs."""
    both = nn, torch.nn
    cases = [
        ("Linear", (3, 4), {}, [(2, 5, 3)]),
        ("Bilinear", (3, 4, 2), {}, [(5, 3), (5, 4)]),
        ("Conv1d", (3, 5, 3), {"padding": "same"}, [(2, 3, 7)]),
        ("Conv2d", (4, 6, (3, 2)), {"stride": 2, "padding": 1, "groups": 2}, [(2, 4, 7, 5)]),
        ("Conv2d", (2, 3, 3), {"padding": 1, "padding_mode": "reflect"}, [(2, 2, 5, 5)]),
        ("Conv3d", (2, 3, 2), {}, [(1, 2, 4, 3, 5)]),
        ("ConvTranspose2d", (4, 3, 3), {"stride": 2, "output_padding": 1}, [(2, 4, 5, 3)]),
        ("MaxPool2d", (3,), {"stride": 2, "padding": 1}, [(1, 2, 7, 5)]),
        ("AvgPool1d", (2,), {}, [(1, 2, 7)]),
        ("AdaptiveAvgPool2d", ((2, 3),), {}, [(1, 2, 7, 5)]),
        ("BatchNorm1d", (3,), {}, [(5, 3)]),
        ("BatchNorm2d", (3,), {"momentum": None}, [(2, 3, 5, 4)]),
        ("LayerNorm", ((3, 5),), {}, [(2, 3, 5)]),
        ("GroupNorm", (2, 4), {}, [(2, 4, 5)]),
        ("RMSNorm", (5,), {"eps": 1e-6}, [(2, 5)]),
        ("MultiheadAttention", (8, 2), {"batch_first": True}, [(2, 3, 8), (2, 5, 8), (2, 5, 8)]),
        ("TransformerEncoderLayer", (8, 2, 16), {"dropout": 0.0, "norm_first": True}, [(3, 2, 8)]),
        ("TransformerDecoderLayer", (8, 2, 16), {"dropout": 0.0}, [(3, 2, 8), (5, 2, 8)]),
        ("RNN", (3, 4), {"num_layers": 2, "nonlinearity": "relu"}, [(5, 2, 3)]),
        ("LSTM", (3, 4), {"bidirectional": True, "batch_first": True}, [(2, 5, 3)]),
        ("GRU", (3, 4), {}, [(5, 2, 3)]),
        ("PReLU", (3,), {}, [(2, 3, 4)]),
        ("GELU", (), {"approximate": "tanh"}, [(7,)]),
        ("Softplus", (), {"beta": 2.0}, [(7,)]),
        ("GLU", (), {"dim": 1}, [(2, 4)]),
    ]
    for name, arguments, options, shapes in cases:
        ours, theirs = (getattr(module, name)(*arguments, **options) for module in both)
        yield name, ours, theirs, shapes


def first_of(result):
    return result[0] if isinstance(result, tuple) else result


def test_layers_agree_with_pytorch(rng):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for name, ours, theirs, shapes in layers_with_inputs(torch):
        ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
        inputs = [rng.standard_normal(shape, np.float32) for shape in shapes]
        expected = first_of(theirs(*map(torch.from_numpy, inputs)))
        actual = first_of(ours(*map(gb.tensor, inputs)))
        np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), 1e-4, 1e-5, err_msg=name)
        if not list(theirs.parameters()):
            continue
        expected.square().sum().backward()
        (actual * actual).sum().backward()
        wanted = dict(theirs.named_parameters())
        for key, parameter in ours.named_parameters():
            np.testing.assert_allclose(
                parameter.grad.numpy(), wanted[key].grad.numpy(), 1e-3, 1e-3, err_msg=f"{name}.{key}"
            )


def test_losses_agree_with_their_formulas(rng):
    x, y = (rng.standard_normal((5, 3), np.float32) for _ in range(2))
    difference = np.abs(x - y)
    smooth = np.where(difference < 1, difference**2 / 2, difference - 0.5)
    for loss in (nn.SmoothL1Loss(), nn.HuberLoss()):
        close(loss(gb.tensor(x), gb.tensor(y)), smooth.mean(dtype=np.float32), 16)
    close(nn.MSELoss(reduction="sum")(gb.tensor(x), gb.tensor(y)), (difference**2).sum(), 16)
    logarithms = x - np.log(np.exp(x).sum(-1, keepdims=True))
    classes = np.array([0, 2, 1, -100, 2])
    kept = np.array([-logarithms[i, c] for i, c in enumerate(classes) if c >= 0])
    actual = nn.CrossEntropyLoss()(gb.tensor(x), gb.tensor(classes, dtype=gb.int64))
    close(actual, kept.mean(dtype=np.float32), 16)
    with pytest.raises(ValueError, match="reduction"):
        nn.MSELoss(reduction="average")


def test_norms_take_parameters_of_the_normalized_shape_alone():
    x = gb.ones((1, 2, 3))
    for name in ("layer_norm", "rms_norm"):
        norm = getattr(gb.nn.functional, name)
        assert norm(x, (2, 3), gb.ones((2, 3))).shape == x.shape
        assert norm(gb.ones((0, 2, 3)), (2, 3), gb.ones((2, 3))).shape == (0, 2, 3)
        for shape, weight in (((3,), (1, 3)), ((3,), (1, 2, 3)), ((2, 3), (6,)), ((2, 3), (3,)), ((3,), ())):
            with pytest.raises(ValueError, match=rf"\[{name}\]"):
                norm(x, shape, gb.ones(weight))
        with pytest.raises(ValueError, match=rf"\[{name}\]"):
            norm(x, (), None)
    with pytest.raises(ValueError, match=r"\[layer_norm\]"):
        gb.nn.functional.layer_norm(x, (3,), None, gb.ones((1, 3)))


def test_weights_do_not_broadcast_losses_to_a_larger_shape():
    x = gb.zeros(())
    for weights in ({"weight": gb.ones(1)}, {"pos_weight": gb.ones((1, 1))}):
        with pytest.raises(ValueError, match=r"\[bce_with_logits\]"):
            gb.nn.functional.binary_cross_entropy_with_logits(x, x, **weights)
    x, y = gb.zeros((2, 3)), gb.ones((2, 3))
    loss = gb.nn.functional.binary_cross_entropy_with_logits(x, y, gb.ones(3), reduction="none")
    assert loss.shape == (2, 3)


@pytest.mark.parametrize(("large", "dtype"), [(3e38, gb.float32), (1e300, gb.float64)])
def test_an_infinite_norm_makes_no_nan(large, dtype):
    x = gb.tensor([large, large], dtype=dtype)
    assert gb.nn.functional.cosine_similarity(x, gb.ones(2, dtype=dtype), 0).item() == 0
    assert gb.nn.functional.normalize(x, dim=0).tolist() == [0, 0]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids))


def test_layers_share_a_parameter_by_assignment():
    model, ids = Tied(), gb.tensor([1, 4])
    assert model.head.weight is model.embedding.weight
    assert [name for name, _ in model.named_parameters()] == ["embedding.weight"]
    assert list(model.state_dict()) == ["embedding.weight", "head.weight"]
    optimizer = gb.optim.SGD(model.parameters(), lr=0.1)
    before = model.embedding.weight.detach() + 0
    model(ids).sum().backward()
    rows = before[ids]
    expected = gb.zeros(5, 3) + rows.sum(0)  # of the head
    for i in (1, 4):
        expected[i] += before.sum(0)  # of the rows that were taken
    np.testing.assert_allclose(model.embedding.weight.grad.numpy(), expected.numpy(), rtol=1e-5)
    optimizer.step()
    np.testing.assert_allclose(model(ids).detach().numpy(), (model.embedding.weight[ids] @ model.embedding.weight.T)
                               .detach().numpy(), rtol=1e-5, atol=1e-6)  # fmt: skip


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_share_what_the_module_shares(copied):
    model = copied(Tied())
    assert model.head.weight is model.embedding.weight
    with gb.no_grad():
        model.embedding.weight.mul_(2)
    assert model(gb.tensor([0])).shape == (1, 5) and len(list(model.parameters())) == 1


def test_compiled_functions_see_a_shared_parameter():
    model, ids = Tied(), gb.tensor([1, 4])
    compiled = gb.compile(model)
    first = compiled(ids)
    with gb.no_grad():
        model.head.weight.mul_(2)
    np.testing.assert_allclose(compiled(ids).numpy(), 4 * first.detach().numpy(), rtol=1e-5)


def test_a_layer_with_another_parameter_again():
    layer, first, second = nn.Linear(2, 2, bias=False), nn.Parameter(gb.ones(2, 2)), nn.Parameter(gb.zeros(2, 2))
    for parameter, total in ((first, 2.0), (second, 0.0), (first, 2.0)):
        layer.weight = parameter
        assert layer(gb.ones(2)).tolist() == [total, total] and layer.weight is parameter
    layer.weight = gb.ones(2, 2) * 3  # values, which the parameter gets
    assert first.tolist() == [[3.0, 3.0]] * 2
    assert nn.Linear(2, 2, bias=False)(gb.ones(2)).shape == (2,)
    lstm = nn.LSTM(2, 3)
    for value in (1.0, 0.0):
        lstm.weight_ih_l0 = nn.Parameter(gb.full((12, 2), value))
        assert float(lstm.weight_ih_l0.sum()) == 24 * value
