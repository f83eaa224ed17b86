"""Sphinx's settings: `./test python` builds the site, with the built package on PYTHONPATH."""

import pathlib
import sys
import types

import gabbro as gb

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # cpp_headers

project = "Gabbro"
author = "the Gabbro authors"
version = release = gb.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "myst_parser", "cpp_headers"]
html_theme = "furo"
html_title = "Gabbro"
html_show_copyright = False
html_static_path = []
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 2
napoleon_google_docstring = False
autodoc_typehints = "none"  # the signatures say them
add_module_names = False
autosummary_generate = True
default_role = "code"  # `x` in docstrings


def as_python_functions(holder):
    """Sphinx takes nanobind's functions for data; of these it reads the signature in their docstrings."""
    for name, value in list(vars(holder).items()):
        if type(value).__name__ not in ("nb_func", "nb_method") or not value.__doc__:
            continue
        if name == "__repr__":  # Sphinx prints values of dtypes
            continue
        function = types.FunctionType((lambda *args, **kwargs: None).__code__, {}, name)
        signature, line_end, rest = value.__doc__.replace("gabbro._core.", "").partition("\n")
        function.__doc__ = name + signature[signature.index("(") :] + line_end + rest  # an alias has its own name
        function.__module__, function.__qualname__ = gb.__name__, value.__qualname__
        setattr(holder, name, function)


for module in (gb, gb.nn, gb.nn.functional):
    for holder in (module, *(value for value in vars(module).values() if isinstance(value, type))):
        as_python_functions(holder)


def set_off_examples(app, what, name, obj, options, lines):
    """Examples that follow a section, which would be taken for a part of it, get a separate section."""
    first = next((i for i, line in enumerate(lines) if line.startswith(">>> ")), None)
    if first is not None and any(line.startswith("---") for line in lines[:first]):
        lines[first:first] = ["Examples", "--------"]


def setup(app):
    app.connect("autodoc-process-docstring", set_off_examples, priority=400)  # before napoleon reads the sections
