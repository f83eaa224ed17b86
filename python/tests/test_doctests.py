"""The examples in the docstrings of everything public run, and everything public has an example and a description."""

import doctest
import inspect

import numpy as np
import pytest

import gabbro as gb

VALUES = {name for name in gb.__all__ if isinstance(getattr(gb, name), gb.DType)}
WITHOUT_EXAMPLE = {
    "DeviceError",
    "cuda_is_available",
    "cuda_device_count",
    "cuda_get_device_info",
    "rocm_is_available",
    "rocm_device_count",
    "rocm_get_device_info",
}  # what they give differs


def documented():
    yield "gabbro", gb
    for name in sorted(set(gb.__all__) - VALUES):
        yield name, getattr(gb, name)
    for kind in (gb.Tensor, gb.DType, gb.Device):
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_"):
                yield f"{kind.__name__}.{name}", member


CASES = dict(documented())


@pytest.mark.parametrize("name", CASES)
def test_examples(name):
    documentation = CASES[name].__doc__
    assert documentation, f"{name} has no docstring"
    gb.set_device("cpu")
    names = {"gb": gb, "np": np}
    test = doctest.DocTestParser().get_doctest(documentation, names, name, None, 0)
    if not isinstance(CASES[name], property) and "." not in name:
        assert test.examples or name in WITHOUT_EXAMPLE, f"{name} has no example"
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert result.failed == 0
