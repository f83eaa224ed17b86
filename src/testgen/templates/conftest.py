"""Runs the tests of this folder with plugin.py, which several packs in one run of pytest share.

--no-isolate            run in this process, for a debugger
--device rocm:0         the devices to test: cpu, cuda:N, rocm:N, all; several by commas
--limit SECONDS         of one test
--size tiny,heads       sizes in place of the pack's
--require rocm          exit code 3 where there is no such device
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

PACKAGE = "gabbro_testgen"  # in this folder, or next to it
NAME = f"{PACKAGE}_plugin"


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Registers the plugin, unless another pack has done so."""
    if pluginmanager.hasplugin(NAME):
        return
    places = [folder / PACKAGE / "plugin.py" for folder in pathlib.Path(__file__).resolve().parents[:2]]
    found = [path for path in places if path.is_file()]
    if not found:
        raise pytest.UsageError(f"{places[0].parent} is missing: the code that packs share; gabbro testgen writes it")
    spec = importlib.util.spec_from_file_location(NAME, found[0])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)
    pluginmanager.register(module, NAME)
