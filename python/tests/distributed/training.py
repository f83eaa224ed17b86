"""Programs that test_distributed.py runs in separate processes, with simulated devices or under mpirun.

    training.py NAME [ARGUMENT...]

Each prints one line of JSON. The references use one device at a time, without gabbro.distributed.
"""

import copy
import json
import sys
import time

import numpy as np

import gabbro as gb

STEPS = 20
SIZES = (17, 33, 29, 5)  # of the layers


class Network(gb.nn.Module):
    """Three layers; one of them is used twice."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.first = gb.nn.Linear(SIZES[0], SIZES[1])
        self.middle = gb.nn.Linear(SIZES[1], SIZES[1])
        self.norm = gb.nn.LayerNorm(SIZES[1])
        self.dropout = gb.nn.Dropout(dropout)
        self.last = gb.nn.Linear(SIZES[1], SIZES[3])

    def forward(self, x):
        x = gb.relu(self.first(x))
        x = self.middle(self.norm(self.middle(x)))
        return self.last(self.dropout(gb.tanh(x)))


def network(**options):
    gb.seed(3)
    module = Network(**options).to("cpu")
    gb.eval(module)
    return module


def batches(size, steps=STEPS):
    rng = np.random.default_rng(5)
    weight = rng.standard_normal((SIZES[0], SIZES[3]), np.float32) / 4
    for _ in range(steps):
        x = rng.standard_normal((size, SIZES[0]), np.float32)
        yield x, np.tanh(x @ weight)


def optimizer_of(name, module):
    if name == "sgd":
        return gb.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    return gb.optim.Adam(module.parameters(), lr=0.01)


def values(module):
    return {name: value.numpy().tobytes().hex() for name, value in module.state_dict().items()}


def parts_of(array, count):
    return np.array_split(array, count)


def trained_in_parallel(kind, devices, size, dropout=0.0, clip=None, scaler=None, bucket=25):
    module = network(dropout=dropout)
    model = gb.distributed.DataParallel(module, devices=devices, bucket_cap_mb=bucket)
    optimizer = optimizer_of(kind, module)
    gb.seed(11)
    losses = []
    for x, y in batches(size):
        optimizer.zero_grad()
        loss = gb.nn.functional.mse_loss(model(gb.tensor(x, device="cpu")), gb.tensor(y, device=devices[0]))
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
        else:
            loss.backward()
        if clip is not None:
            gb.nn.utils.clip_grad_norm_(module.parameters(), clip)
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        losses.append(loss.item())
    return module, losses


def trained_in_turn(kind, devices, size, dropout=0.0, clip=None):
    """The parts of the batch in sequence, each on its device; the gradients are added up by NumPy."""
    module = network(dropout=dropout).to(devices[0])
    optimizer = optimizer_of(kind, module)
    gb.seed(11)
    losses = []
    for x, y in batches(size):
        optimizer.zero_grad()
        copies = [copy.deepcopy(module).to(device) for device in devices]
        results = [
            own(gb.tensor(part, device=device))
            for own, part, device in zip(copies, parts_of(x, len(devices)), devices, strict=True)
        ]
        joined = gb.tensor(np.concatenate([result.numpy() for result in results]), device=devices[0]).requires_grad_()
        loss = gb.nn.functional.mse_loss(joined, gb.tensor(y, device=devices[0]))
        loss.backward()
        seeds = parts_of(joined.grad.numpy(), len(devices))
        for result, seed, device in zip(results, seeds, devices, strict=True):
            result.backward(gb.tensor(seed, device=device))
        for index, parameter in enumerate(module.parameters()):
            total = None
            for own in copies:
                gradient = list(own.parameters())[index].grad.numpy()
                total = gradient if total is None else total + gradient
            parameter.grad = gb.tensor(total, device=devices[0])
        if clip is not None:
            gb.nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    return module, losses


def accumulated_on_one(kind, device, count, size):
    """One device that adds the gradients of the parts up as `backward` does."""
    module = network().to(device)
    optimizer = optimizer_of(kind, module)
    losses = []
    for x, y in batches(size):
        optimizer.zero_grad()
        results = [module(gb.tensor(part, device=device)) for part in parts_of(x, count)]
        joined = gb.tensor(np.concatenate([result.numpy() for result in results]), device=device).requires_grad_()
        loss = gb.nn.functional.mse_loss(joined, gb.tensor(y, device=device))
        loss.backward()
        for result, seed in zip(results, parts_of(joined.grad.numpy(), count), strict=True):
            result.backward(gb.tensor(seed, device=device))
        optimizer.step()
        losses.append(loss.item())
    return module, losses


def opened(names):
    """Device names; "cpu/2" is the CPU with two threads."""
    return [gb.Device("cpu", threads=int(name[4:])) if name.startswith("cpu/") else gb.Device(name) for name in names]


def equal(kind, size, *names, dropout=0.0, clip=None, bucket=25.0):
    devices = opened(names)
    ours, losses = trained_in_parallel(kind, devices, size, dropout=dropout, clip=clip, bucket=bucket)
    expected, expected_losses = trained_in_turn(kind, devices, size, dropout=dropout, clip=clip)
    return {"equal": values(ours) == values(expected) and losses == expected_losses, "losses": losses}


def one(kind, size, *names):
    devices = opened(names)
    ours, losses = trained_in_parallel(kind, devices, size)
    expected, expected_losses = accumulated_on_one(kind, devices[0], len(devices), size)
    return {"equal": values(ours) == values(expected) and losses == expected_losses, "losses": losses}


def scaled(*names):
    """A scale that overflows at first, and gradients of one device that are infinite."""
    devices = opened(names)
    module = network()
    model = gb.distributed.DataParallel(module, devices=devices)
    optimizer = optimizer_of("sgd", module)
    scaler = gb.GradScaler(2.0**10, device=devices[0])
    before = values(module)
    x = np.ones((5, SIZES[0]), np.float32)
    x[-1] = np.inf  # of the last device
    scales, unchanged = [], []
    for part in (x, np.ones_like(x)):
        optimizer.zero_grad()
        scaler.scale(model(gb.tensor(part, device="cpu")).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        unchanged.append(values(module) == before)
    return {"scales": scales, "unchanged": unchanged}


def moments(*names):
    """Batch norm: the running moments come from the first device's part."""
    devices = opened(names)
    norm = gb.nn.BatchNorm1d(3)
    model = gb.distributed.DataParallel(norm, devices=devices)
    x = np.random.default_rng(2).standard_normal((7, 3), np.float32)
    result = model(gb.tensor(x, device="cpu")).numpy()
    parts = parts_of(x, len(devices))
    expected = np.concatenate([(p - p.mean(0)) / np.sqrt(p.var(0) + 1e-5) for p in parts])
    return {
        "result": float(np.abs(result - expected).max()),
        "mean": float(np.abs(norm.running_mean.numpy() - 0.1 * parts[0].mean(0)).max()),
        "tracked": int(norm.num_batches_tracked.item()),
        "names": list(model.state_dict()),
    }


def copies_made(*names):
    """Parameters are copied when they change, not in each call."""
    devices = opened(names)
    module = network()
    model = gb.distributed.DataParallel(module, devices=devices)
    x = gb.tensor(np.ones((5, SIZES[0]), np.float32), device=devices[0])
    counts = []
    for _ in range(3):
        before = devices[1].memory_stats()["allocations"]
        with gb.no_grad():
            model(x).numpy()
        counts.append(devices[1].memory_stats()["allocations"] - before)
    with gb.no_grad():
        for parameter in module.parameters():
            parameter[...] = parameter * 2
    changed = model(x).numpy()
    alone = module(x).numpy()
    return {"counts": counts, "changed": float(np.abs(changed - alone).max())}


def over_processes(kind, size):
    """Each rank with its part; the reference adds up both parts' gradients of a copy of the module."""
    rank, count = gb.distributed.get_rank(), gb.distributed.get_world_size()
    gb.seed(100 + rank)  # other initial values on each rank: rank 0 decides
    module = network()
    if rank != 0:
        with gb.no_grad():
            for parameter in module.parameters():
                parameter[...] = parameter + 1
    model = gb.distributed.DataParallel(module, devices=["cpu"])
    reference = copy.deepcopy(module)  # with rank 0's values
    optimizer = optimizer_of(kind, module)
    for x, y in batches(size):
        optimizer.zero_grad()
        own = gb.nn.functional.mse_loss(model(gb.tensor(parts_of(x, count)[rank])), gb.tensor(parts_of(y, count)[rank]))
        own.backward()
        optimizer.step()
    optimizer = optimizer_of(kind, reference)
    for x, y in batches(size):
        optimizer.zero_grad()
        gradients = []
        for part, target in zip(parts_of(x, count), parts_of(y, count), strict=True):
            own = copy.deepcopy(reference)
            gb.nn.functional.mse_loss(own(gb.tensor(part)), gb.tensor(target)).backward()
            gradients.append([parameter.grad.numpy() for parameter in own.parameters()])
        for index, parameter in enumerate(reference.parameters()):
            total = gradients[0][index]
            for more in gradients[1:]:
                total = total + more[index]
            parameter.grad = gb.tensor(total / np.float32(count))
        optimizer.step()
    drawn = gb.rand(4).numpy().tolist()
    return {"rank": rank, "size": count, "equal": values(module) == values(reference), "drawn": drawn}


def micro_steps():
    """Gradients of no_sync stay until the next backward."""
    rank = gb.distributed.get_rank()
    weight = gb.nn.Linear(1, 1, bias=False)
    with gb.no_grad():
        weight.weight[...] = 1.0
    model = gb.distributed.DataParallel(weight, devices=["cpu"])
    with model.no_sync():
        model(gb.full((1, 1), 1.0 + rank)).sum().backward()
    alone = weight.weight.grad.item()
    model(gb.full((1, 1), 10.0 + rank)).sum().backward()
    unused = gb.nn.Linear(1, 1)
    branch = gb.distributed.DataParallel(Branch(unused), devices=["cpu"])
    branch(gb.ones((1, 1)), rank).sum().backward()
    return {"rank": rank, "alone": alone, "all": weight.weight.grad.item(), "branch": unused.weight.grad.item()}


class Branch(gb.nn.Module):
    """Uses its layer on rank 1 only."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.other = gb.nn.Linear(1, 1)

    def forward(self, x, rank):
        return self.layer(x) + self.other(x) if rank == 1 else self.other(x)


def endless(stops):
    """All ranks exchange without end; rank `stops` says its process number first."""
    import os

    if gb.distributed.get_rank() == int(stops):
        print(json.dumps({"process": os.getpid()}), flush=True)
    x = gb.ones(5000)
    while True:
        gb.distributed.all_reduce(x)
        x = x / 2
        time.sleep(0.01)


def main():
    name, *arguments = sys.argv[1:]
    given = [json.loads(argument) if argument[:1] in "0123456789." else argument for argument in arguments]
    options = {key: json.loads(value) for key, value in (a.split("=") for a in map(str, given) if "=" in a)}
    positional = [a for a in given if "=" not in str(a)]
    sys.stdout.write(json.dumps(globals()[name](*positional, **options)) + "\n")  # one write: ranks share the pipe


if __name__ == "__main__":
    main()
