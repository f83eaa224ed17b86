"""Speed of single ops, next to PyTorch where it is installed: ``python -m gabbro.bench --help``.

The cases (``cases.json``), the document of ``--json`` and the page of ``--html`` are shared with ``gabbro bench ops``.
Each case is planned once and then run repeatedly, like a function of `gabbro.compile`.
"""

from ._program import main as main
