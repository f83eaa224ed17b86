"""Pages of the public C++ headers: their comments as text and their declarations as code, one page for each header that
users name (`gabbro/ops.h`), with the headers that it includes as sections."""

import pathlib
import re

INCLUDE = pathlib.Path(__file__).parents[2] / "include"
PAGES = ("tensor", "ops", "nn", "optim", "device", "llm", "image")
# The page of headers that several pages include.
HOMES = {
    "gabbro/backend": "device",
    "gabbro/dtype.h": "tensor",
    "gabbro/error.h": "tensor",
    "gabbro/graph/eval.h": "tensor",
    "gabbro/graph/history.h": "optim",
    "gabbro/ops/create.h": "tensor",
    "gabbro/ops/grad.h": "optim",
    "gabbro/ops/promotion.h": "ops",
    "gabbro/tensor/": "tensor",
}


def text_of(comment):
    """A comment as Markdown: what has a meaning there is taken literally, except for `code`."""
    parts = re.split(r"(`[^`]*`)", comment)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<>\[\]|#$~])", r"\\\1", part) for part in parts)


def comment_and_rest(lines):
    """The comment that the lines begin with, and the lines after it."""
    count = 0
    while count < len(lines) and lines[count].startswith("//"):
        count += 1
    return " ".join(line[2:].strip() for line in lines[:count]), lines[count:]


def blocks(lines):
    """Groups of declarations: they end at empty lines and begin at comments, outside of braces."""
    block, depth = [], 0
    for line in lines:
        comment = depth == 0 and line.startswith("//")
        if block and depth == 0 and (not line or (comment and not block[-1].startswith("//"))):
            yield block
            block = []
        if line:
            block.append(line)
        elif block:
            block.append(line)  # an empty line inside of a class
        code = re.sub(r'"[^"]*"|//.*', "", line)
        depth += code.count("{") - code.count("}")
    if block:
        yield block


def section(header):
    """The Markdown of one header."""
    lines = (INCLUDE / header).read_text(encoding="utf-8").split("\n")
    intro, lines = comment_and_rest(lines)
    first = max((number for number, line in enumerate(lines) if re.match(r"namespace gabbro\S* {", line)), default=None)
    out = [f"## `{header}`", "", text_of(intro), ""]
    if first is None:
        return out  # includes alone
    last = max(number for number, line in enumerate(lines) if line.startswith("}  // namespace"))
    for block in blocks(lines[first + 1 : last]):
        comment, code = comment_and_rest(block)
        if comment:
            out += [text_of(comment), ""]
        if code:
            out += ["```cpp", *code, "```", ""]
    return out


def included(header, found):
    """The header and those that it includes, each once, in order."""
    if header in found:
        return
    found.append(header)
    for name in re.findall(r'#include "(gabbro/[^"]+)"', (INCLUDE / header).read_text(encoding="utf-8")):
        included(name, found)


def home(header):
    """The page that HOMES says, or None."""
    return next((page for beginning, page in HOMES.items() if header.startswith(beginning)), None)


def page(name, taken):
    """The Markdown of a page; headers on earlier pages are not there again."""
    top = f"gabbro/{name}.h"
    found = []
    included(top, found)
    intro, _ = comment_and_rest((INCLUDE / top).read_text(encoding="utf-8").split("\n"))
    out = [f"# {top}", "", text_of(intro), "", "```cpp", f"#include <{top}>", "```", ""]
    for header in sorted(found[1:]):
        if header in taken or home(header) not in (None, name):
            continue
        if header.count("/") == 1 and home(header) is None:
            continue  # it has a page
        taken.add(header)
        out += section(header)
    return "\n".join(out)


def write_pages(folder):
    """Writes cpp_tensor.md and the others."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = set()
    for name in PAGES:
        (folder / f"cpp_{name}.md").write_text(page(name, taken) + "\n", encoding="utf-8")
    return taken


def setup(app):
    app.connect("builder-inited", lambda app: write_pages(pathlib.Path(app.srcdir, "api", "generated")), priority=100)
    return {"parallel_read_safe": True}
