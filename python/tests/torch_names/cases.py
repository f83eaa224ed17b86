"""The lines: each is run in both libraries. Semicolons part statements; the last one is the result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "lines"


def _table(name: str) -> list[str]:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()


FUNCTIONS, METHODS, NETWORKS, TRAINING = map(_table, ("functions", "methods", "networks", "training"))

# Lines that PyTorch answers and Gabbro refuses, and why.
REFUSED = {
    "X.clone().unsqueeze_(0)": "a tensor keeps its shape",
    "torch.unique(N, dim=0)": "elements alone are compared",
    "X.view(torch.int32)": "bits as another dtype",
    "X.shape.numel()": "a shape is a tuple",
    "F.cross_entropy(X, C, size_average=True)": "deprecated arguments are not supported",
    "nn.MSELoss(True)(X, Y)": "deprecated arguments are not supported",
    "nn.MSELoss(reduction='average')": "a wrong reduction is refused when the loss is made",
    "torch.autograd.grad(X.sum(), (X, Y), allow_unused=True)": "unused inputs have zeros",
}
# Lines that Gabbro answers and PyTorch refuses, and why.
ANSWERED = {
    "X.t().view(12)": "layouts are not visible: view is reshape",
    "torch.sgn(X)": "PyTorch's gradient is a ZeroTensor, which NumPy does not read",
    "torch.floor_divide(X, Y)": "its gradient is 0",
    "torch.floor_divide(P, 0.5)": "its gradient is 0",
    "torch.mean(N)": "the mean of integers is float32",
    "torch.gelu(X)": "it is a function of the module as well",
    "X.logsumexp()": "without dim all axes",
}
# Lines whose results differ by intention, and why.
DIFFERENT = {
    "a = X * 2; h = a.register_hook(lambda g: g * 3); i = a.register_hook(lambda g: g + 1); a * Y": (
        "the hook that was added last is called first"
    ),
    "torch.var(X, ())": "the gradient of the variance of one element is 0; PyTorch's is infinite",
}

INTENDED = {**REFUSED, **ANSWERED, **DIFFERENT}


def lines() -> Iterator[str]:
    """Each line once."""
    seen: set[str] = set()
    for table in (FUNCTIONS, METHODS, NETWORKS, TRAINING):
        for text in table:
            for line in prefixes(text) if text.startswith("*") else [text]:
                if line not in seen:
                    seen.add(line)
                    yield line


def prefixes(text: str) -> Iterator[str]:
    """Of ``*f(a | b | c)`` each call with the first arguments: f(a), f(a, b), f(a, b, c)."""
    name, arguments = text[1:].rstrip(")").split("(", 1)
    parts = arguments.split(" | ")
    for count in range(1, len(parts) + 1):
        yield f"{name}({', '.join(parts[:count])})"
