"""Speed of single ops, next to PyTorch where it is installed: ``python -m gabbro.bench --help``.

The cases are those of ``gabbro bench ops`` (``cases.json``), and so are the document of ``--json`` and the page of
``--html``. Each case is planned once and then run again and again, as a function of `gabbro.compile` is.
"""

from ._program import main as main
