"""Training on several devices, of this process and of the processes that ``mpirun`` has started.

>>> gb.distributed.get_rank(), gb.distributed.get_world_size()
(0, 1)
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _core
from ._core import Device, Module, Tensor
from ._trees import flattened, rebuilt
from .backend.gpu import GpuBackend
from .gradients import no_grad

__all__ = [
    "DataParallel",
    "all_reduce",
    "barrier",
    "broadcast",
    "get_rank",
    "get_world_size",
    "is_available",
    "is_initialized",
]

_joined: tuple[int, int, str] | None = None


def _processes() -> tuple[int, int, str]:
    """Rank, number of ranks, and the MPI: joins the others in the first call."""
    global _joined
    if _core._launched_processes() == 1:
        return 0, 1, ""
    if _joined is None:
        _joined = _core._join_processes()
        _core._set_random_rank(_joined[0])
    return _joined


def is_available() -> bool:
    """Whether a launcher (``mpirun``, ``srun``) has started other processes along with this one."""
    return _core._launched_processes() > 1


def is_initialized() -> bool:
    """Whether this process has joined the others: the first call of another function of this module does it."""
    return _joined is not None


def get_rank() -> int:
    """The number of this process among those that ``mpirun`` has started; 0 without it.

    Raises
    ------
    RuntimeError
        If Open MPI's library is missing, or the launcher or the library is another MPI's.
    """
    return _processes()[0]


def get_world_size() -> int:
    """How many processes ``mpirun`` has started; 1 without it. Raises as `get_rank`."""
    return _processes()[1]


def barrier() -> None:
    """Waits until all processes have come here.

    Raises
    ------
    DeviceError
        If another process is stopped or gone: the text names it.
    """
    if get_world_size() > 1:
        _core._barrier()


def all_reduce(tensor: Tensor) -> None:
    """Gives the tensor the sum of all processes' tensors, added up in the order of the ranks: equal bits on each.

    Raises
    ------
    ValueError
        For integers and bool.
    DeviceError
        If another process is stopped or gone: the text names it.
    """
    if get_world_size() > 1:
        with no_grad():
            tensor[...] = _core._sum_over_processes(tensor.detach())


def broadcast(tensor: Tensor, src: int = 0) -> None:
    """Gives the tensor the values of rank 0's.

    Raises
    ------
    ValueError
        For another `src`.
    DeviceError
        If another process is stopped or gone: the text names it.
    """
    if src != 0:
        raise ValueError(f"[broadcast] src={src} is not supported: rank 0 sends")
    if get_world_size() > 1:
        _give_values_of_first([tensor])


def _give_values_of_first(tensors: list[Tensor]) -> None:
    values = _core._values_of_first([tensor.detach() for tensor in tensors])
    with no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor[...] = value


def _opened(devices: Sequence[Any] | None, module: Module) -> list[Device]:
    kind = next((parameter.device.name for parameter in module.parameters()), _core.get_device().name).split(":")[0]
    if devices is None:
        if kind == "cpu":
            return [_core.Device("cpu")]
        count = GpuBackend(kind).get_device_count()
        if get_world_size() > 1:  # one for each process of a host
            return [_core.Device(f"{kind}:{get_rank() % count}")]
        return [_core.Device(f"{kind}:{number}") for number in range(count)]
    if isinstance(devices, (str, Device)):
        raise TypeError(f"[DataParallel] devices is a list of devices, not {devices!r}")
    opened: list[Device] = []
    for device in devices:
        if isinstance(device, int) and not isinstance(device, bool):
            backend = kind if kind != "cpu" else _core.Device("gpu").name.split(":")[0]
            opened.append(_core.Device(f"{backend}:{device}"))
        else:
            opened.append(device if isinstance(device, Device) else _core.Device(device))
    return opened


class _Replicas:
    """What the devices hold, which a copied or unpickled module makes again."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.made = _core._Replicas(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Replicas, self.arguments


class DataParallel(Module):
    """A module that computes its batch on several devices: each has a copy of the parameters, and a part of the batch.

    The module moves to the first device. A call cuts its tensors along the first axis, in the order of the devices,
    calls the module on each device, and joins the results on the first one. `backward` brings the gradients of all
    devices to the module's parameters, added up in the order of the devices: optimizers, `clip_grad_norm_` and
    `GradScaler` see their sum, as on one device that had computed the parts in sequence.

    Under ``mpirun`` each process calls the module with its own part of the batch, and computes its own loss. The values
    of rank 0 are given to all at first. `backward` leaves each process with the mean of the gradients over the
    processes.

    Parameters
    ----------
    module : Module
    devices : sequence of str, Device or int, optional
        Without it all devices of the module's backend, and under ``mpirun`` the device of the process's number. An int
        is a number of a GPU.
    bucket_cap_mb : float
        Gradients are exchanged in groups of this many MiB, while devices compute the next ones.

    Raises
    ------
    ValueError
        For no devices, and for one that is given twice. When it is called: for a batch with fewer items than devices,
        tensors of different lengths, and no tensor at all.
    DeviceError
        For a device that does not exist.

    Notes
    -----
    Buffers, such as the running moments of batch norm, are the module's: the first device's part of the batch changes
    them, and the other devices compute with copies whose changes are lost. Each device normalizes by the moments of its
    own part. Over processes, rank 0's buffers count.

    Random numbers of dropout are drawn device by device, in their order. Over processes, rank r draws from position
    r · 2⁴⁰ of the seed's numbers on.

    The state dict, and the names of parameters and buffers, are the module's.

    >>> model = gb.distributed.DataParallel(gb.nn.Linear(4, 2), devices=["cpu"])
    >>> model(gb.ones((3, 4))).shape
    (3, 2)
    """

    def __init__(self, module: Module, devices: Sequence[Any] | None = None, *, bucket_cap_mb: float = 25) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise TypeError(f"[DataParallel] expected a Module, got {module!r}")
        if not bucket_cap_mb > 0:
            raise ValueError(f"[DataParallel] bucket_cap_mb is {bucket_cap_mb}")
        self.devices = _opened(devices, module)
        self._over_processes = get_world_size() > 1
        self._replicas = _Replicas(self.devices, math.ceil(bucket_cap_mb * 2**20), self._over_processes)
        self.module = module.to(self.devices[0])
        if self._over_processes:
            self._share(list(module.parameters()) + list(module.buffers()))

    @staticmethod
    def _share(tensors: list[Tensor]) -> None:
        if tensors:
            _give_values_of_first(tensors)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives for each part of the batch, joined along the first axis; numbers become a vector."""
        if len(self.devices) == 1 and not self._over_processes:
            return self.module(*inputs, **kwargs)
        parts = self._cut(inputs, kwargs)
        parameters, buffers = list(self.module.parameters()), list(self.module.buffers())
        if self._over_processes and self.module.training:
            self._share(buffers)
        lent = self._replicas.made.replicate(parameters + buffers)
        results = []
        for rank, (args, named) in enumerate(parts):
            places = _core._LentValues(parameters if rank == 0 else parameters + buffers)
            places.lend(lent[rank][: len(parameters)] if rank == 0 else lent[rank])
            try:
                results.append(self.module(*args, **named))
            finally:
                places.take_back()
        return results[0] if len(results) == 1 else self._joined(results)

    def _cut(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
        """The arguments of each device."""
        tensors: list[Tensor] = []
        structure = flattened((inputs, kwargs), tensors)
        count = len(self.devices)
        if count > 1:
            lengths = {tensor.shape[0] for tensor in tensors if tensor.ndim > 0}
            if not lengths:
                raise ValueError("[DataParallel] the call has no tensor to cut over the devices")
            if len(lengths) > 1:
                raise ValueError(f"[DataParallel] tensors of first lengths {sorted(lengths)} cannot be cut together")
            (batch,) = lengths
            if batch < count:
                raise ValueError(f"[DataParallel] a batch of {batch} is too small for {count} devices")
            ends = [batch // count * (i + 1) + min(batch % count, i + 1) for i in range(count)]
            starts = [0, *ends[:-1]]
        pieces: list[Tensor] = []
        for rank in range(count):
            pieces += [x if x.ndim == 0 or count == 1 else x[starts[rank] : ends[rank]] for x in tensors]
        ranks = [rank for rank in range(count) for _ in tensors]
        moved = self._replicas.made.moved(pieces, ranks) if pieces else []
        width = len(tensors)
        return [rebuilt(structure, moved[rank * width : (rank + 1) * width]) for rank in range(count)]

    def _joined(self, results: list[Any]) -> Any:
        """The results of the devices as one, on the first device."""
        tensors: list[Tensor] = []
        structures = [flattened(result, tensors) for result in results]
        width = len(tensors) // len(results)
        if len(tensors) != width * len(results) or (width == 0 and any(s != structures[0] for s in structures)):
            raise ValueError("[DataParallel] the module gives other results on other devices")
        if not tensors:
            return results[0]
        wide = [x.reshape(1) if x.ndim == 0 else x for x in tensors]
        moved = self._replicas.made.moved(wide, [0] * len(wide))
        return rebuilt(structures[0], [_core.concat(moved[i::width], axis=0) for i in range(width)])

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """While it lasts, gradients of `backward` stay in their process: for steps of several micro batches.

        The first `backward` after it brings the mean of all of them.
        """
        if self._over_processes:
            _core._average_over_processes(False)
        try:
            yield
        finally:
            if self._over_processes:
                _core._average_over_processes(True)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """The module's."""
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Gives the module these values; over processes, each loads them."""
        return self.module.load_state_dict(state_dict, strict, assign)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        """The module's."""
        return self.module.named_parameters(*args, **kwargs)

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        """The module's."""
        return self.module.named_buffers(*args, **kwargs)
