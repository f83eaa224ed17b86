"""The functions of the Python array API standard (2024.12), with their signatures and the dtypes that they take."""

# As the standard has them; what stands before a / may be called otherwise.
SIGNATURES = """
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing='xy')
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
clip(x, /, min=None, max=None)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
concat(arrays, /, *, axis=0)
expand_dims(x, /, axis)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
tile(x, repetitions, /)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
nonzero(x, /)
searchsorted(x1, x2, /, *, side='left', sorter=None)
where(condition, x1, x2, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
"""
UNARY = {
    "floats": "acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal signbit sin sinh "
              "sqrt tan tanh",
    "numbers": "abs ceil conj floor isfinite isinf isnan negative positive real round sign square trunc",
    "whole": "bitwise_invert",
    "bool": "logical_not",
}  # fmt: skip
BINARY = {
    "floats": "atan2 copysign divide hypot logaddexp nextafter",
    "numbers": "add floor_divide greater greater_equal less less_equal maximum minimum multiply pow remainder subtract",
    "whole": "bitwise_and bitwise_or bitwise_xor",
    "integers": "bitwise_left_shift bitwise_right_shift",
    "bool": "logical_and logical_or logical_xor",
    "any": "equal not_equal",
}
FLOATS, INTEGERS = ["float32", "float64"], ["int8", "uint8", "int16", "int32", "int64"]
KINDS = {"floats": FLOATS, "integers": INTEGERS, "numbers": FLOATS + INTEGERS, "whole": [*INTEGERS, "bool"],
         "bool": ["bool"], "any": [*FLOATS, *INTEGERS, "bool"]}  # fmt: skip
ELEMENTWISE = [*((name, kind, "x, /") for kind, names in UNARY.items() for name in [*names.split()]),
               ("imag", "floats", "x, /"),
               *((name, kind, "x1, x2, /") for kind, names in BINARY.items() for name in names.split())]  # fmt: skip
STANDARD = dict(line.split("(", 1) for line in SIGNATURES.split("\n") if line)
STANDARD |= {name: f"{arguments})" for name, _, arguments in ELEMENTWISE}
