"""Names of PyTorch that public programs use: most exist, and the documentation has the state of each."""

import pytest

import gabbro as gb
from torch_names import public_names


def test_most_names_exist():
    names = public_names.names()
    missing = [name for name in names if not public_names.exists(name, gb)]
    assert len(names) >= 250
    assert len(missing) <= 0.04 * len(names), missing


def test_those_left_out_have_a_reason():
    missing = {name for name in public_names.names() if not public_names.exists(name, gb)}
    assert missing == public_names.LEFT_OUT.keys() | public_names.REFUSED.keys()


def test_the_page_has_the_state_of_each_name():
    assert public_names.PAGE.read_text(encoding="utf-8") == public_names.page(gb)


def test_refused_names_raise_an_error():
    for name in public_names.REFUSED:
        kind = gb
        for part in name.split(".")[1:]:
            kind = getattr(kind, part)
        with pytest.raises(ValueError, match="not supported"):
            kind(gb.nn.Linear(2, 2))
