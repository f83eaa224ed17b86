"""Where Gabbro differs from PyTorch by intention: each row has its reason. Where the Python array API standard and
PyTorch agree there is no row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .compare import LARGEST, Difference
from .program import Call, DTypeName, Program, refs_of

if TYPE_CHECKING:
    import torch

    from .torch_side import Run


@dataclass(frozen=True)
class Intended:
    name: str
    covers: Callable[[Program, Difference], bool]
    reason: str


def meets_bool(program: Program) -> bool:
    return any("scalar" in call.op for call in program.calls)


def calls(program: Program) -> set[str]:
    return {call.op for call in program.calls}


def refuses(difference: Difference, *reasons: str) -> bool:
    """Gabbro answers what PyTorch refuses for one of these reasons."""
    return difference.kind == "answered" and any(reason in difference.text for reason in reasons)


PRODUCTS = {"matmul", "operator @", "matmul of integers", "bmm", "einsum", "tensordot", "vecdot", "linear", "bilinear"}

NORMS = {"cosine_similarity", "normalize", "layer_norm", "layer_norm of axes", "rms_norm", "group_norm"}
NORMS |= {"batch_norm", "batch_norm_training"}

# Functions whose results are places or counts: int32 here, int64 in PyTorch.
PLACES = {"argmax", "argmin", "argsort", "count_nonzero", "searchsorted", "nonzero", "one_hot"}

INTENDED = [
    Intended(
        "places are int32",
        lambda program, d: d.kind == "dtype" and d.text == "int32 instead of int64" and bool(PLACES & calls(program)),
        "Places and counts are int32, the default integer and index dtype that the namespace declares "
        "(__array_namespace_info__); the standard leaves the choice to the library.",
    ),
    Intended(
        "derivatives at NaN",
        lambda program, d: d.kind == "value" and "gradient" in d.where and has_nan(program),
        "A function has no derivative at NaN. PyTorch gives 0, 1 or NaN there, by function (relu6 1, hardtanh 0, "
        "softplus NaN); the values themselves are compared and NaN.",
    ),
    Intended(
        "copysign at 0",
        lambda program, d: "second gradient" in d.where and "copysign" in calls(program),
        "The second derivative of copysign is 0; PyTorch divides 0 by 0 where the magnitude is 0.",
    ),
    Intended(
        "an int with a bool",
        lambda program, d: d.kind == "dtype" and d.text == "int32 instead of int64" and meets_bool(program),
        "A Python int with a tensor of bool makes the default integer dtype, which is int32 here and int64 in "
        "PyTorch; the standard leaves it open.",
    ),
    Intended(
        "outer takes any shape",
        lambda program, d: d.kind == "answered" and "outer" in calls(program),
        "outer flattens its arguments, as numpy.outer.",
    ),
    Intended(
        "infinity times 0 in a gradient",
        lambda program, d: (
            d.kind == "value"
            and "gradient" in d.where
            and "PyTorch np.float64(nan), exact" in d.text
            and "exact np.float64(nan)" in d.text
            and "np.float64(nan)" not in d.text.split("PyTorch")[0]
        ),
        "Where a derivative is infinite and the one before it 0, PyTorch's gradient is NaN; here some rules give 0.",
    ),
    Intended(
        "squares beyond float32",
        lambda program, d: (
            "std" in calls(program)
            and ("np.float64(inf), PyTorch" in d.text or ("gradient" in d.where and has_extremes(program, {"std"})))
        ),
        "std is the root of var, which float32 holds up to 3.4e38, and its gradient 0 where that is infinite; PyTorch "
        "keeps the square in float64.",
    ),
    Intended(
        "norms beyond the dtype",
        lambda program, d: d.kind == "value" and has_extremes(program, NORMS),
        "Norms and moments are infinite or NaN where a sum or a square overflows; PyTorch's norm of one element is its "
        "magnitude, and its mean a running one.",
    ),
    Intended(
        "scores that overflow",
        lambda program, d: (
            d.kind == "value"
            and "np.float64(nan), PyTorch np.float64(0.0)" in d.text
            and has_extremes(program, {"scaled_dot_product_attention"})
        ),
        "Where all scores of a query are minus infinity without a mask, softmax has no value; PyTorch gives 0.",
    ),
    Intended(
        "products beyond the dtype",
        lambda program, d: (
            d.kind == "value"
            and (
                has_extremes(program, {"prod", "cumulative_prod", "bilinear"})
                or ("gradient" in d.where and has_extremes(program, {"scaled_dot_product_attention"}))
            )
        ),
        "The order of factors decides which products on the way overflow or underflow.",
    ),
    Intended(
        "second derivatives beyond the dtype",
        lambda program, d: (
            d.kind == "value"
            and "second gradient" in d.where
            and "np.float64(nan), PyTorch" in d.text
            and has_extremes(program, calls(program))
        ),
        "Of numbers next to the limit, products on the way to a second derivative are infinite in some order alone.",
    ),
    Intended(
        "gradients beyond the dtype",
        lambda program, d: (
            d.kind == "value"
            and "gradient" in d.where
            and "np.float64(nan), PyTorch" in d.text
            and gradients_overflow(program)
        ),
        "A gradient on the way that its dtype does not hold is infinite, and NaN as soon as it meets another.",
    ),
    Intended(
        "next to a pole",
        lambda program, d: d.kind == "value" and "np.float64(nan), PyTorch" in d.text and is_next_to_pole(program),
        "Rounding decides on which side of a pole a number is, or whether it is the pole: 1 / (x - mean) of equal x.",
    ),
    Intended(
        "NaN times a derivative of 0",
        lambda program, d: (
            "gradient" in d.where
            and "np.float64(nan), PyTorch np.float64(0.0)" in d.text
            and "hardswish" in calls(program)
        ),
        "hardswish is a product, whose gradient is NaN where that of its result is; PyTorch's is 0 below -3.",
    ),
    Intended(
        "gelu of float64 below 0",
        lambda program, d: d.kind == "value" and has_gelu_tail(program),
        "PyTorch has x/2 · (1 + erf(x/√2)), whose sum loses digits below 0. Gabbro and the reference have erfc, which "
        "does not.",
    ),
    Intended(
        "numbers that float16 does not hold",
        lambda program, d: d.kind == "value" and has_half_scalar_beyond(program),
        "A Python number is rounded to the dtype of the tensor that it meets, as the standard has it; PyTorch takes it "
        "in float32.",
    ),
    Intended(
        "no variance",
        lambda program, d: d.kind == "value" and "np.float64(nan), PyTorch" in d.text and has_no_variance(program),
        "With a correction that is not less than the number of elements, the standard's var and std are NaN.",
    ),
    Intended(
        "padding times infinity or NaN",
        lambda program, d: (
            d.kind == "value"
            and "np.float64(nan), PyTorch" in d.text
            and any(op.startswith("conv") for op in calls(program))
            and has_infinity(program)
        ),
        "A convolution is a product with zeros as padding, also between the elements of a transposed one; whether "
        "PyTorch's is depends on the dtype and the kernel that it chooses.",
    ),
    Intended(
        "searchsorted among NaN",
        lambda program, d: d.kind == "value" and "searchsorted" in calls(program) and has_nan(program),
        "NaN come last, as sort puts them; PyTorch takes a NaN to be smaller than each number.",
    ),
    Intended(
        "a weight of 0 times infinity or NaN",
        lambda program, d: (
            d.kind == "value"
            and "np.float64(nan)" in d.text
            and bool({"interpolate", "adaptive_avg_pool2d"} & calls(program))
            and has_infinity(program)
        ),
        "Resizing, or its gradient, is a product with a matrix of weights, also where a weight is 0; which axis comes "
        "first, and whether one of the same length is left out, decides where 0 meets infinity.",
    ),
    Intended(
        "integers and bool are taken",
        lambda program, d: refuses(d, "floating point", "support bool", "with a bool tensor"),
        "Functions of floats take integers and bool, as float32, and argmax and a minus with a number take bool, where "
        "PyTorch's refuse them.",
    ),
    Intended(
        "meshgrid of several dtypes",
        lambda program, d: refuses(d, "meshgrid expects all tensors"),
        "Each result has the dtype of its vector, as numpy.meshgrid's.",
    ),
    Intended(
        "products promote",
        lambda program, d: refuses(d, "same dtype", "expected scalar type") and bool(PRODUCTS & calls(program)),
        "Factors of two dtypes meet in the dtype of both, as in sums and as the standard has it.",
    ),
    Intended(
        "values are cast",
        lambda program, d: refuses(d, "dtype to be equal to src.dtype") and "put_along_axis" in calls(program),
        "put_along_axis casts values to the dtype of the tensor, as documented and as NumPy's.",
    ),
    Intended(
        "padding of windows with gaps",
        lambda program, d: refuses(d, "at most half of kernel size") and "max_pool1d" in calls(program),
        "Padding is at most half of a window with its gaps, as in PyTorch's max_pool2d; its max_pool1d counts the "
        "window without them.",
    ),
    Intended(
        "windows that reach into padding",
        lambda program, d: refuses(d, "smaller than kernel size") and "avg_pool3d" in calls(program),
        "A window may be as long as the padded input, as in PyTorch's avg_pool2d; its avg_pool3d compares the window "
        "with the input alone.",
    ),
    Intended(
        "integers divided by zero",
        lambda program, d: refuses(d, "ZeroDivisionError"),
        "0, as documented and as NumPy's: a check would wait for the device at each division.",
    ),
    Intended(
        "negative powers of integers",
        lambda program, d: refuses(d, "negative integer powers"),
        "0 but for ±1, as documented and as PyTorch's where the power is a tensor.",
    ),
    Intended(
        "probabilities are not checked",
        lambda program, d: refuses(d, "should be between 0 and 1"),
        "binary_cross_entropy gives what the formula does outside [0, 1]: a check would wait for the device.",
    ),
    Intended(
        "the sign of NaN",
        lambda program, d: d.kind == "value" and bool({"copysign", "signbit"} & calls(program)) and has_nan(program),
        "signbit of a NaN is False, as documented: IEEE 754 leaves the sign of a computed NaN open.",
    ),
    Intended(
        "six axes",
        lambda program, d: d.kind == "refused" and "more than 6 axes" in d.text,
        "Tensors have at most 6 axes, also those on the way to a result.",
    ),
    Intended(
        "no axis of shape ()",
        lambda program, d: d.kind == "refused" and "out of range for shape ()" in d.text,
        "A tensor of shape () has no axes, as in NumPy and the standard; PyTorch takes 0 and -1 for it.",
    ),
]


def tensors_of(run: Run, call: Call) -> list[torch.Tensor]:
    """The tensors among a call's arguments."""
    return [run.inputs[ref.number] if ref.kind == "x" else run.results[ref.number] for ref in refs_of(call.args)]


def floats_of(program: Program) -> list[np.ndarray]:
    """Inputs and results of floats, as PyTorch has them."""
    from .torch_side import Run, to_numpy

    run = Run(program)
    run.forward()
    return [to_numpy(value) for value in [*run.inputs, *run.results] if value.is_floating_point()]


def has_nan(program: Program) -> bool:
    return any(np.isnan(array).any() for array in floats_of(program))


def has_extremes(program: Program, functions: set[str]) -> bool:
    """A tensor argument of one of these functions has a number whose square float32, or its float64, does not hold."""
    from .torch_side import Run, to_numpy

    run = Run(program)
    run.forward()
    for call in program.calls:
        for x in tensors_of(run, call) if call.op in functions else []:
            size = np.abs(to_numpy(x).astype(np.float64))
            if (size[np.isfinite(size)] > (1e153 if "64" in str(x.dtype) else 1e18)).any():
                return True
    return False


def native_and_exact(program: Program) -> tuple[Run, Run]:
    """The program as PyTorch computes it, and in the reference's f64, both forward."""
    from .torch_side import Run, dtype_name

    run = Run(program)
    run.forward()
    exact = Run(program, [dtype_name(y) for y in run.results])
    exact.forward()
    return run, exact


def gradients_overflow(program: Program) -> bool:
    """The gradient of a result, exactly, is larger than the numbers of its dtype."""
    from .torch_side import dtype_name

    run, exact = native_and_exact(program)
    dtypes = [dtype_name(y) for y in run.results]
    numbers = [at for at, y in enumerate(exact.results) if y.requires_grad]
    outputs = [exact.results[at] for at in program.outputs]
    found = exact.gradients_of([exact.results[at] for at in numbers], outputs, False) if numbers else []
    return any((gradient.abs() > LARGEST[dtypes[at]]).any().item() for at, gradient in zip(numbers, found, strict=True))


def has_no_variance(program: Program) -> bool:
    """The variance of some numbers, all finite, is infinite or NaN."""
    from .torch_side import Run, to_numpy

    run = Run(program)
    run.forward()
    return any(
        call.op in {"var", "std"}
        and not np.isfinite(to_numpy(result)).all()
        and all(np.isfinite(to_numpy(x)).all() for x in tensors_of(run, call))
        for call, result in zip(program.calls, run.results, strict=True)
    )


def is_next_to_pole(program: Program) -> bool:
    """A large result of PyTorch is nothing like the exact one."""
    from .torch_side import to_numpy

    run, exact = native_and_exact(program)
    for y, right in zip(run.results, exact.results, strict=True):
        if y.is_floating_point():
            found, known = (to_numpy(x).astype(np.float64) for x in (y, right))
            if (np.isfinite(found) & (np.abs(found) > 1e3) & ~(np.abs(found - known) < 0.5 * np.abs(found))).any():
                return True
    return False


def has_gelu_tail(program: Program) -> bool:
    """A tensor of float64 in gelu has a number where 1 + erf is so small that it lost a decimal digit."""
    from .torch_side import Run, to_numpy

    run = Run(program)
    run.forward()
    for call in program.calls:
        for x in tensors_of(run, call) if call.op == "gelu" else []:
            if "64" in str(x.dtype) and (to_numpy(x) < -1.5).any():
                return True
    return False


def has_half_scalar_beyond(program: Program) -> bool:
    """A number of a call with a tensor is 0 or infinite in float16, which the program has."""
    arguments = [value for call in program.calls for value in call.args.values()]
    is_half = any(x.dtype == "float16" for x in program.inputs) or DTypeName("float16") in arguments
    sizes = [abs(value) for value in arguments if isinstance(value, float)]
    return is_half and any(0 < size < 2.0**-25 or 65520 <= size < np.inf for size in sizes)


def has_infinity(program: Program) -> bool:
    """Infinity or NaN, in gradients as well."""
    from .torch_side import Run

    outcome = Run(program).outcome()
    arrays = [*floats_of(program), *outcome.gradients, *outcome.seconds]
    return any((~np.isfinite(array)).any() for array in arrays)


def intended(program: Program, difference: Difference) -> Intended | None:
    return next((row for row in INTENDED if row.covers(program, difference)), None)
