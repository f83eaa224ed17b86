"""What a program that uses Gabbro looks like to mypy --strict: checked by `./test python`, and never run."""

import numpy as np
from typing_extensions import assert_type

import gabbro as gb


def standardized(x: gb.Tensor, epsilon: float = 1e-5) -> gb.Tensor:
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / gb.sqrt(gb.mean(centered * centered, axis=-1, keepdims=True) + epsilon)


def loss(parameters: dict[str, gb.Tensor], x: gb.Tensor) -> gb.Tensor:
    return ((x @ parameters["w"] + parameters["b"]) ** 2).mean()


class Net(gb.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = gb.nn.Sequential(gb.nn.Linear(3, width), gb.nn.ReLU())
        self.scale = gb.nn.Parameter(gb.ones(width))
        self.norm = gb.nn.LayerNorm(width)

    def forward(self, x: gb.Tensor) -> gb.Tensor:
        y: gb.Tensor = self.norm(self.layers(x)) * self.scale
        return y


def train(model: Net, x: gb.Tensor) -> None:
    optimizer = gb.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = gb.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    with gb.autocast(gb.bfloat16):
        value = gb.nn.functional.mse_loss(model(x), gb.zeros((2, 4)))
    value.backward()
    gb.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step()
    gb.eval(model, optimizer, value)
    gb.save_state("net.safetensors", model.eval())
    model.load_state_dict(gb.load_state("net.safetensors"))
    assert_type(model.to(gb.float16).state_dict(), dict[str, gb.Tensor])
    for name, parameter in model.named_parameters():
        print(name, parameter.grad)


def draw(pipe: gb.image.Pipeline) -> list[int]:
    def on_step(caller: gb.image.Pipeline, step: int, timestep: float, values: dict[str, object]) -> None:
        print(caller, step, timestep, values["pred_original_sample"])

    return pipe("a red heart", num_inference_steps=8, seed=1, callback_on_step_end=on_step, output_type="np").seeds


def main() -> None:
    train(Net(4), gb.ones((2, 3)))
    gb.set_device("cpu")
    x = gb.tensor(np.ones((2, 3), np.float32))
    y = standardized(x)[0, ::2, None]
    y[0] = 1.0
    y += 2
    assert_type(2 * y, gb.Tensor)
    assert_type(y == 3, gb.Tensor)
    assert_type(y.shape, tuple[int, ...])
    assert_type(y.dtype, gb.DType)
    assert_type(gb.topk(y, 1, axis=0).indices, gb.Tensor)
    assert_type(gb.zeros(2, 3).float().view(-1).add_(1).unsqueeze(0).to("cpu", gb.float16), gb.Tensor)
    assert_type(gb.cat([y, y], dim=1).masked_fill(gb.zeros(1, dtype=gb.bool), 0.0), gb.Tensor)
    assert_type(y.numel() + y.dim(), int)
    assert_type(gb.nn.Linear(2, 2).half().in_features, int)
    for batch, labels in gb.utils.data.DataLoader(gb.utils.data.TensorDataset(x, x[:, 0]), batch_size=1):
        print(batch, labels, gb.nn.functional.cross_entropy(batch, labels.long(), reduction="sum"))
    for row in x:
        print(row.item(), float(row), gb.zeros(3, dtype="float16", device=x.device))
    step = gb.compile(standardized)
    print(step(x, epsilon=0.1).numpy().sum(), gb.explain(standardized, x))
    print(gb.conv2d(gb.rand(1, 2, 5, 5), gb.rand((3, 2, 3, 3)), stride=(2, 1)).reshape(-1).tolist())
    y[gb.tensor([0]), y[0] > 0] = 0
    assert_type(y.sum((0, 1)), gb.Tensor)
    assert_type(gb.split(y, indices_or_sections=[1]), tuple[gb.Tensor, ...])
    parameters = {"w": gb.eye(3), "b": gb.zeros(3)}
    value, gradients = gb.value_and_grad(loss)(parameters, x)
    print(value.item(), gradients["w"], gb.grad(loss, argnums=1)(parameters, x))
    weight = gb.ones((3, 3)).requires_grad_()
    gb.checkpoint(loss)({"w": weight, "b": gb.zeros(3)}, x).backward()
    with gb.no_grad():
        weight -= 0.1 * (weight.grad if weight.grad is not None else 0)
    print(gb.rocm_is_available(), gb.device_info()["name"], gb.float32 == gb.bool)
    if gb.backend.rocm.is_available():
        cache = gb.backend.rocm.get_tuning_cache()
        cache.enable_exhaustive_search(True)
        gb.Device("rocm:0").set_tuning(file="tuning.txt")
        images = gb.backend.rocm.get_pinned_pool().acquire(1 << 20).view(np.float32)
        assert_type(gb.tensor(images, device="rocm"), gb.Tensor)
        assert_type(gb.backend.rocm.get_memory_manager().clear_pool(), int)
        print(cache.get_stats()["hits"], gb.get_device().memory_stats()["allocated_bytes"])
