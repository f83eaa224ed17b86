"""The examples in the docstrings of everything public run, and everything public has an example and a description."""

import doctest
import inspect
from pathlib import Path

import numpy as np
import pytest

import gabbro as gb

VALUES = {name for name in gb.__all__ if isinstance(getattr(gb, name), gb.DType)}
WITHOUT_EXAMPLE = {
    "DeviceError",
    "default_generator",
    *(name for name in gb.__all__ if name.startswith(("cuda_", "rocm_"))),
}  # what they give differs


def public_functions(module):
    members = vars(module).items()
    return [name for name, value in members if name[0] != "_" and getattr(value, "__module__", "") == module.__name__]


def documented():
    yield "gabbro", gb
    for name in sorted(set(gb.__all__) - VALUES):
        yield name, getattr(gb, name)
    for kind in (gb.backend.gpu.MemoryManager, gb.backend.gpu.PinnedMemoryPool, gb.backend.gpu.TuningCache):
        for name in (name for name in vars(kind) if not name.startswith("_")):
            yield f"backend.{kind.__name__}.{name}", getattr(kind, name)
    networks = (gb.nn, gb.nn.functional, gb.nn.init, gb.nn.utils, gb.optim, gb.optim.lr_scheduler)
    for module in (gb.backend.rocm, gb.backend.cuda, *networks):
        for name in sorted(getattr(module, "__all__", None) or public_functions(module)):
            yield f"{module.__name__.removeprefix('gabbro.')}.{name}", getattr(module, name)
    for kind in (gb.Tensor, gb.DType, gb.Device, gb.nn.Module, gb.optim.Optimizer):
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


SITE = Path(__file__).resolve().parents[2] / "docs" / "site"


@pytest.mark.parametrize("page", sorted(path.name for path in SITE.glob("*.md")))
def test_examples_of_the_site(page):
    gb.set_device("cpu")
    # The fence behind an example would be a part of what is expected.
    text = (SITE / page).read_text(encoding="utf-8").replace("```\n", "\n")
    test = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    assert test.examples
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.DocTestRunner(optionflags=options).run(test).failed == 0


def test_the_site_lists_everything():
    listed = {line.strip() for path in SITE.glob("api/*.rst") for line in path.read_text().splitlines()}
    aliases = {"bool", "backend", "image", "llm", "nn", "optim", "server", "__array_namespace_info__", "autocast_dtype",
               "default_generator"}
    assert sorted(set(gb.__all__) - VALUES - aliases - listed) == []
    assert sorted(set(gb.backend.rocm.__all__) - listed) == []
    assert sorted(set(gb.nn.__all__) - {"functional", "init", "utils"} - listed) == []
