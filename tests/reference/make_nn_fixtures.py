#!/usr/bin/env python3
"""Writes tests/data/nn: what PyTorch's modules, optimizers and schedules do, and two safetensors files.

Of a module: its state dict's names and shapes, outputs, gradients, and its buffers afterward; of an optimizer: a small
network's parameters after each of five steps. Inputs and parameters are the formulas of `numbers`, which the tests
(tests/nn/modules_test.cc, tests/train/optimizers_test.cc) have as well; seeds of gradients are the ones of make_grad_fixtures.py.
Expected values are computed in f64; `ulps` is how far off they may be, in units of 2^-24 of the largest: 16, and four times
what PyTorch is off in f32. Needs torch and safetensors. Usage: make_nn_fixtures.py [folder]
"""
import copy
import json
import pathlib
import sys

import safetensors.torch
import torch
from torch import nn

import op_fixture

DATA = pathlib.Path(__file__).parent.parent / "data" / "nn"


def numbers(shape, k, scale):
    """((7 i + 13 k) mod 29 - 14) · scale at element i."""
    count = int(torch.Size(shape).numel())
    return (((7 * torch.arange(count) + 13 * k) % 29 - 14).to(torch.float64) * scale).reshape(shape)


def seeds(shape):
    count = int(torch.Size(shape).numel())
    return (((7 * torch.arange(count) + 3) % 11 - 5).to(torch.float64) / 4).reshape(shape)


def classes(shape, count):
    return (3 * torch.arange(int(torch.Size(shape).numel())) % count).reshape(shape)


def set_state(module):
    state = module.state_dict()
    for k, (name, value) in enumerate(state.items()):
        if not value.is_floating_point():
            continue
        new = numbers(value.shape, k, 1 / 32)
        state[name] = new.abs() + 0.5 if name.endswith("running_var") else new
    module.load_state_dict(state)


def pack(value, value32):
    value, value32 = value.detach().double(), value32.detach().double()
    largest = value.abs().max().item() if value.numel() else 0
    error = (value - value32).abs().max().item() if value.numel() else 0
    ulps = 16 + (4 * error / (2**-24 * largest) if largest > 0 else 0)
    return {"shape": list(value.shape), "data": [op_fixture.number(v) for v in value.float().flatten().tolist()],
            "ulps": int(ulps + 1)}


def flat(outputs):
    """The tensors of nested tuples, in order."""
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    return [t for o in outputs if o is not None for t in flat(o)]


def run(module, inputs, training, forward, dtype):
    module = copy.deepcopy(module).to(dtype)
    set_state(module)
    module.train(training)
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
    real = [x.requires_grad_() for x in inputs if x.is_floating_point()]
    outputs = flat(forward(module, *inputs))
    loss = sum((y * seeds(y.shape).to(dtype)).sum() for y in outputs)
    wanted = real + list(module.parameters())
    gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
    gradients = [torch.zeros_like(w) if g is None else g for g, w in zip(gradients, wanted)]
    buffers = {n: b for n, b in module.named_buffers()}
    return outputs, gradients, buffers


class Modules:
    def __init__(self):
        self.cases = []

    def add(self, name, module, inputs, training=True, forward=lambda m, *x: m(*x)):
        module = module.double()
        inputs = [numbers(x, 100 + k, 1 / 8) if isinstance(x, tuple) else x for k, x in enumerate(inputs)]
        wide, narrow = (run(module, [x.clone() for x in inputs], training, forward, d) for d in (torch.float64, torch.float32))
        self.cases.append({
            "name": name,
            "training": training,
            "inputs": [{"shape": list(x.shape), "classes": None if x.is_floating_point() else x.flatten().tolist()} for x in inputs],
            "state": [[n, list(v.shape)] for n, v in module.state_dict().items()],
            "outputs": [pack(a, b) for a, b in zip(wide[0], narrow[0])],
            "gradients": [pack(a, b) for a, b in zip(wide[1], narrow[1])],
            "buffers": {n: pack(b, narrow[2][n]) for n, b in wide[2].items()},
        })


def layers(m):
    m.add("linear", nn.Linear(5, 3), [(2, 4, 5)])
    m.add("linear_no_bias", nn.Linear(5, 3, bias=False), [(5,)])
    m.add("bilinear", nn.Bilinear(3, 4, 2), [(5, 3), (5, 4)])
    m.add("sequential", nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Sequential(nn.Linear(6, 2), nn.Tanh())), [(3, 4)])
    m.add("embedding", nn.Embedding(7, 3), [classes((2, 5), 7)])
    m.add("embedding_padding", nn.Embedding(7, 3, padding_idx=3), [classes((2, 5), 7)])
    m.add("conv1d", nn.Conv1d(4, 6, 3, padding=1, groups=2), [(2, 4, 7)])
    m.add("conv1d_same", nn.Conv1d(2, 3, 4, padding="same", dilation=2), [(2, 2, 9)])
    m.add("conv2d", nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 0)), [(2, 3, 5, 6)])
    m.add("conv2d_reflect", nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), [(1, 2, 4, 5)])
    m.add("conv3d", nn.Conv3d(2, 3, 2, bias=False), [(1, 2, 3, 4, 3)])
    m.add("conv_transpose2d", nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), [(2, 4, 3, 4)])
    m.add("max_pool1d", nn.MaxPool1d(3, stride=2, padding=1), [(2, 3, 8)])
    m.add("max_pool2d", nn.MaxPool2d(2), [(2, 3, 5, 6)])
    m.add("max_pool3d", nn.MaxPool3d(2), [(1, 2, 4, 4, 2)])
    m.add("avg_pool1d", nn.AvgPool1d(3, stride=1, padding=1, count_include_pad=False), [(2, 3, 6)])
    m.add("avg_pool2d", nn.AvgPool2d((3, 2), stride=2), [(2, 3, 5, 6)])
    m.add("avg_pool3d", nn.AvgPool3d(2, stride=1), [(1, 2, 3, 3, 3)])
    m.add("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((2, 3)), [(2, 2, 5, 7)])
    m.add("upsample_nearest", nn.Upsample(scale_factor=2), [(1, 2, 3, 2)])
    m.add("upsample_bilinear", nn.Upsample(size=(5, 4), mode="bilinear", align_corners=True), [(1, 2, 3, 2)])
    m.add("batch_norm1d", nn.BatchNorm1d(3), [(4, 3)])
    m.add("batch_norm2d", nn.BatchNorm2d(3, momentum=0.3), [(2, 3, 4, 2)])
    m.add("batch_norm2d_cumulative", nn.BatchNorm2d(3, momentum=None), [(2, 3, 4, 2)],
          forward=lambda n, x: (n(x), n(x * 2 + 1)))
    m.add("batch_norm2d_eval", nn.BatchNorm2d(3), [(2, 3, 4, 2)], training=False)
    m.add("batch_norm2d_untracked", nn.BatchNorm2d(3, affine=False, track_running_stats=False), [(2, 3, 4, 2)], training=False)
    m.add("layer_norm", nn.LayerNorm((3, 4)), [(2, 3, 4)])
    m.add("layer_norm_plain", nn.LayerNorm(5, elementwise_affine=False), [(2, 5)])
    m.add("group_norm", nn.GroupNorm(2, 6), [(2, 6, 3)])
    m.add("rms_norm", nn.RMSNorm(6, eps=1e-5), [(2, 3, 6)])
    m.add("dropout_eval", nn.Dropout(0.5), [(3, 4)], training=False)
    for name, module in [
            ("relu", nn.ReLU()), ("relu6", nn.ReLU6()), ("leaky_relu", nn.LeakyReLU(0.2)), ("elu", nn.ELU(0.7)),
            ("celu", nn.CELU(1.3)), ("selu", nn.SELU()), ("gelu", nn.GELU()), ("gelu_tanh", nn.GELU("tanh")),
            ("silu", nn.SiLU()), ("mish", nn.Mish()), ("sigmoid", nn.Sigmoid()), ("tanh", nn.Tanh()),
            ("softplus", nn.Softplus(2, 3)), ("softsign", nn.Softsign()), ("log_sigmoid", nn.LogSigmoid()),
            ("hardtanh", nn.Hardtanh(-1.1, 0.9)), ("hardsigmoid", nn.Hardsigmoid()), ("hardswish", nn.Hardswish()),
            ("softmax", nn.Softmax(1)), ("log_softmax", nn.LogSoftmax(-1)), ("glu", nn.GLU(0)), ("prelu", nn.PReLU(5)),
            ("flatten", nn.Flatten())]:
        # Elements with a corner at a multiple of 1/8 are none here.
        m.add(name, module, [(4, 5, 2)], forward=lambda n, x: n(x + 0.03))


def losses(m):
    m.add("mse_loss", nn.MSELoss(), [(3, 4), (3, 4)])
    m.add("l1_loss", nn.L1Loss(reduction="sum"), [(3, 4), (3, 4)], forward=lambda n, x, y: n(x + 0.03, y))
    m.add("smooth_l1_loss", nn.SmoothL1Loss(beta=0.5), [(3, 4), (3, 4)], forward=lambda n, x, y: n(x + 0.03, y))
    m.add("huber_loss", nn.HuberLoss(delta=0.7, reduction="none"), [(3, 4), (3, 4)], forward=lambda n, x, y: n(x + 0.03, y))
    m.add("bce_loss", nn.BCELoss(), [(3, 4), (3, 4)], forward=lambda n, x, y: n(torch.sigmoid(x), torch.sigmoid(y)))
    m.add("bce_with_logits", nn.BCEWithLogitsLoss(), [(3, 4), (3, 4)], forward=lambda n, x, y: n(x, torch.sigmoid(y)))
    m.add("bce_with_logits_weights", nn.BCEWithLogitsLoss(weight=torch.ones(4), pos_weight=torch.ones(4)), [(3, 4), (3, 4)],
          forward=lambda n, x, y: n(x, torch.sigmoid(y)))
    m.add("kl_div", nn.KLDivLoss(reduction="sum"), [(3, 4), (3, 4)], forward=lambda n, x, y: n(torch.log_softmax(x, -1), torch.softmax(y, -1)))
    m.add("nll_loss", nn.NLLLoss(ignore_index=1), [(6, 4), classes((6,), 4)])
    m.add("cross_entropy", nn.CrossEntropyLoss(), [(6, 4), classes((6,), 4)])
    m.add("cross_entropy_smoothed", nn.CrossEntropyLoss(weight=torch.ones(4), ignore_index=1, label_smoothing=0.2),
          [(2, 4, 3), classes((2, 3), 4)])
    m.add("cross_entropy_none", nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1), [(2, 4, 3), classes((2, 3), 4)])


def attention(m):
    causal = lambda n: torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
    m.add("multihead", nn.MultiheadAttention(8, 2), [(5, 2, 8)], forward=lambda n, x: n(x, x, x))
    m.add("multihead_batch_first", nn.MultiheadAttention(8, 2, batch_first=True, bias=False), [(2, 3, 8), (2, 5, 8)],
          forward=lambda n, q, k: n(q, k, k, need_weights=False)[0])
    m.add("multihead_dims", nn.MultiheadAttention(8, 4, kdim=5, vdim=6, batch_first=True), [(2, 3, 8), (2, 4, 5), (2, 4, 6)],
          forward=lambda n, q, k, v: n(q, k, v, average_attn_weights=False))
    m.add("multihead_masks", nn.MultiheadAttention(8, 2, batch_first=True), [(2, 4, 8)],
          forward=lambda n, x: n(x, x, x, attn_mask=causal(4), key_padding_mask=torch.tensor([[False] * 4, [False, False, True, True]])))
    m.add("multihead_extra_keys", nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True), [(3, 8)],
          forward=lambda n, x: n(x, x, x))
    m.add("encoder_layer", nn.TransformerEncoderLayer(8, 2, 12, dropout=0), [(4, 2, 8)])
    m.add("encoder_layer_first", nn.TransformerEncoderLayer(8, 2, 12, dropout=0, activation="gelu", batch_first=True, norm_first=True),
          [(2, 4, 8)], forward=lambda n, x: n(x, src_mask=causal(4), is_causal=True))
    m.add("encoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, dropout=0, batch_first=True), 2, nn.LayerNorm(8), enable_nested_tensor=False), [(2, 4, 8)])
    m.add("decoder_layer", nn.TransformerDecoderLayer(8, 2, 12, dropout=0, batch_first=True), [(2, 3, 8), (2, 4, 8)],
          forward=lambda n, x, y: n(x, y, tgt_mask=causal(3)))
    m.add("decoder_layer_first", nn.TransformerDecoderLayer(8, 2, 12, dropout=0, norm_first=True, bias=False), [(3, 2, 8), (4, 2, 8)])
    m.add("decoder", nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12, dropout=0, batch_first=True), 2), [(2, 3, 8), (2, 4, 8)])


def recurrent(m):
    m.add("rnn", nn.RNN(3, 4), [(5, 2, 3)])
    m.add("rnn_relu", nn.RNN(3, 4, nonlinearity="relu", bias=False, batch_first=True), [(2, 5, 3), (1, 2, 4)])
    m.add("lstm", nn.LSTM(3, 4, num_layers=2), [(4, 2, 3)])
    m.add("lstm_both_ways", nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True), [(2, 4, 3), (4, 2, 4), (4, 2, 4)],
          forward=lambda n, x, h, c: n(x, (h, c)))
    m.add("lstm_projected", nn.LSTM(3, 4, proj_size=2), [(4, 2, 3)])
    m.add("gru", nn.GRU(3, 4, bidirectional=True), [(4, 2, 3)])
    m.add("gru_unbatched", nn.GRU(3, 4, num_layers=2), [(4, 3), (2, 4)])


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                first, second = group["betas"]
                c = first * m + (1 - first) * p.grad
                p -= group["lr"] * (torch.sign(c) + group["weight_decay"] * p)
                m.mul_(second).add_(p.grad, alpha=1 - second)


O = torch.optim
OPTIMIZERS = {
    "sgd": lambda p: O.SGD(p, 0.1),
    "sgd_momentum": lambda p: O.SGD(p, 0.1, momentum=0.9, dampening=0.2, weight_decay=0.05),
    "sgd_nesterov": lambda p: O.SGD(p, 0.1, momentum=0.8, nesterov=True),
    "adam": lambda p: O.Adam(p, 0.02),
    "adam_decay": lambda p: O.Adam(p, 0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "adam_amsgrad": lambda p: O.Adam(p, 0.1, betas=(0.5, 0.6), amsgrad=True),
    "adamw": lambda p: O.AdamW(p, 0.02),
    "lion": lambda p: Lion(p, 0.01, (0.9, 0.99), 0.1),
    "adagrad": lambda p: O.Adagrad(p, 0.1, lr_decay=0.1, weight_decay=0.01, initial_accumulator_value=0.1),
    "rmsprop": lambda p: O.RMSprop(p, 0.01),
    "rmsprop_centered": lambda p: O.RMSprop(p, 0.01, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.01),
}


def train(make, dtype, clip):
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).to(dtype)
    set_state(model)
    x, y = numbers((7, 3), 100, 1 / 8).to(dtype), numbers((7, 2), 101, 1 / 8).to(dtype)
    optimizer = make(model.parameters())
    history = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        history.append([p.detach().clone() for p in model.parameters()] + [loss.detach()])
    return history


SCHEDULES = {
    "constant": lambda o: O.lr_scheduler.ConstantLR(o, factor=0.25, total_iters=3),
    "linear": lambda o: O.lr_scheduler.LinearLR(o, start_factor=0.1, end_factor=0.8, total_iters=5),
    "step": lambda o: O.lr_scheduler.StepLR(o, 3, gamma=0.5),
    "multi_step": lambda o: O.lr_scheduler.MultiStepLR(o, [2, 7], gamma=0.3),
    "exponential": lambda o: O.lr_scheduler.ExponentialLR(o, 0.9),
    "polynomial": lambda o: O.lr_scheduler.PolynomialLR(o, total_iters=8, power=2),
    "cosine": lambda o: O.lr_scheduler.CosineAnnealingLR(o, 10, eta_min=0.01),
    "cosine_restarts": lambda o: O.lr_scheduler.CosineAnnealingWarmRestarts(o, 3, T_mult=2, eta_min=0.02),
    "one_cycle": lambda o: O.lr_scheduler.OneCycleLR(o, max_lr=2.5, total_steps=12),
    "sequential": lambda o: O.lr_scheduler.SequentialLR(
        o, [O.lr_scheduler.LinearLR(o, start_factor=0.25, total_iters=4), O.lr_scheduler.ExponentialLR(o, 0.8)], [4]),
}


def rates(make):
    optimizer = O.SGD([torch.zeros(1, requires_grad=True)], 0.5)
    scheduler = make(optimizer)
    found = []
    for _ in range(12):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(found) < 12:
            scheduler.step()
    return found


def plateau():
    optimizer = O.SGD([torch.zeros(1, requires_grad=True)], 0.5)
    scheduler = O.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=1, min_lr=0.1)
    losses = [1.0, 0.8, 0.81, 0.8, 0.79, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.5, 0.6, 0.6, 0.6]
    found = []
    for loss in losses:
        scheduler.step(loss)
        found.append(optimizer.param_groups[0]["lr"])
    return {"losses": losses, "rates": found}


def write_safetensors(folder):
    """A tensor of each dtype that we have, and the state dict of a model, by the reference implementation."""
    dtypes = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64, "i8": torch.int8,
              "u8": torch.uint8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64}
    tensors = {name: torch.arange(6).reshape(2, 3).to(dtype) for name, dtype in dtypes.items()}
    tensors |= {"bool": torch.tensor([True, False, True]), "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3)}
    safetensors.torch.save_file(tensors, folder / "dtypes.safetensors", metadata={"made by": 'safetensors "quoted" \u00fc'})
    model = nn.Sequential(nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.Flatten(), nn.Linear(6, 2)).eval()
    set_state(model)
    x = numbers((2, 2, 4), 100, 1 / 8).float()
    tensors = dict(model.state_dict()) | {"x": x, "y": model(x).detach()}
    safetensors.torch.save_file(tensors, folder / "model.safetensors")


def write(name, document, folder):
    lines = ",\n".join(json.dumps(d, separators=(",", ":")) for d in document)
    (folder / name).write_text("[" + lines + "]\n")


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    modules = Modules()
    for family in (layers, losses, attention, recurrent):
        family(modules)
    write("modules.json", modules.cases, folder)
    optimizers = []
    for name, make, clip in [(n, m, 0) for n, m in OPTIMIZERS.items()] + [("sgd_clipped", OPTIMIZERS["sgd"], 0.3)]:
        wide, narrow = (train(make, d, clip) for d in (torch.float64, torch.float32))
        optimizers.append({"name": name, "steps": [[pack(a, b) for a, b in zip(*s)] for s in zip(wide, narrow)]})
    write("optimizers.json", optimizers, folder)
    schedules = [{"name": n, "rates": rates(m)} for n, m in SCHEDULES.items()]
    write_safetensors(folder)
    write("schedules.json", schedules + [{"name": "plateau", **plateau()}], folder)


if __name__ == "__main__":
    main()
