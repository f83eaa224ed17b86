"""PyTorch's names that public programs use, and their state here; --write writes the page docs/site/torch_names.md.

`public_names.txt` has the number of files that use a name, of 165 files, and the name.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

NAMES = Path(__file__).with_name("public_names.txt")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "site" / "torch_names.md"

NESTED = "tensors are dense: `nn.utils.rnn.pad_sequence`"
SPARSE = "tensors are dense"
LEFT_OUT = {
    "torch.jagged": NESTED,
    "torch.nested.nested_tensor": NESTED,
    "torch.sparse_coo_tensor": SPARSE,
    "Tensor.to_sparse": SPARSE,
    "torch.view_as_real": "there are no complex dtypes",
    "torch.profiler": "`gb.explain` shows the launches",
    "Tensor.resize": "deprecated in PyTorch: `reshape`",
}
# Names that exist and raise an error which says that they are not supported: they count as left out.
REFUSED = {"torch.nn.parallel.DistributedDataParallel": "`gabbro.distributed`"}
# Names of results and not of tensors.
PLACES = {"Tensor.indices": "of the results of `max`, `sort`, `topk`, `median`"}
HEAD = """# PyTorch's names in public programs

These names of PyTorch are used in 165 public scripts (pytorch/examples, vit-pytorch, nanoGPT). The
table shows how many scripts use each name, and whether it exists here. {here} of {all} exist.

```pycon
>>> import gabbro as torch
>>> torch.nn.functional.one_hot(torch.tensor([0, 2]), 3).tolist()
[[1, 0, 0], [0, 0, 1]]
```

| name | files | state |
| --- | --- | --- |
"""


def names() -> dict[str, int]:
    """The number of files by name."""
    lines = (line.split() for line in NAMES.read_text(encoding="utf-8").splitlines())
    return {name: int(count) for count, name in lines}


def exists(name: str, library: Any) -> bool:
    """Whether a name of PyTorch, such as torch.nn.Linear or Tensor.view, is one of the library's."""
    found: Any = library
    if name in REFUSED:
        return False
    if name in PLACES:
        return hasattr(library.ones(2, 3).max(1), name.split(".")[1])
    parts = name.split(".")
    for part in parts[1:] if parts[0] == "torch" else parts:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def page(library: Any) -> str:
    """The page's text."""
    counts = names()
    here = sum(exists(name, library) for name in counts)
    reasons = LEFT_OUT | REFUSED
    rows = []
    for name, count in counts.items():
        state = f"here: {PLACES[name]}" if name in PLACES else "here"
        rows.append(f"| `{name}` | {count} | {state if exists(name, library) else 'left out: ' + reasons[name]} |\n")
    return HEAD.format(here=here, all=len(counts)) + "".join(rows)


def main() -> int:
    import gabbro

    if "--write" in sys.argv:
        PAGE.write_text(page(gabbro), encoding="utf-8")
    missing = [name for name in names() if not exists(name, gabbro)]
    print(f"{len(names()) - len(missing)} of {len(names())} exist; missing: {', '.join(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
