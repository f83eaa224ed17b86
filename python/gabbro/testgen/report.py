"""Reports of a run: results.json, junit.xml, index.html (one page that needs nothing else) and issue.md."""

from __future__ import annotations

import html
import json
import math
import pathlib
import re
from typing import Any
from xml.etree import ElementTree

Result = dict[str, Any]
BAD = ("failed", "crashed", "timeout")
# In this order a cell of several results shows the first that it has.
STATUSES = ("crashed", "timeout", "failed", "passed", "skipped")
MARKS = {"crashed": "crash", "timeout": "hang", "failed": "fail", "passed": "ok", "skipped": "-"}

STYLE = """
:root { color-scheme: light dark;
  --line: #8884; --ok: #2e9e5b; --bad: #d0342c; --worse: #8b1fa9; --skip: #888; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: .2rem .5rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
th.turn { writing-mode: vertical-rl; transform: rotate(180deg); padding: .5rem .2rem; font-weight: 500; }
td.cell { text-align: center; min-width: 2.1rem; }
.passed { color: var(--ok); } .failed { color: #fff; background: var(--bad); }
.crashed, .timeout { color: #fff; background: var(--worse); } .skipped { color: var(--skip); }
.bar { position: relative; width: 240px; height: .8rem; background: var(--line); }
.bar i { position: absolute; left: 0; top: 0; bottom: 0; background: var(--ok); }
.bar i.over { background: var(--bad); }
.bar b { position: absolute; top: -.15rem; bottom: -.15rem; width: 2px; background: currentColor; }
td.text { white-space: normal; min-width: 14rem; overflow-wrap: anywhere; } .number { text-align: right; }
td.cell small { display: block; font-size: 10px; line-height: 1.1; }
.axis { display: grid; grid-template-columns: 1fr 1fr 1fr; width: 240px; font-weight: 400; opacity: .75; }
.axis :nth-child(2) { text-align: center; } .axis :nth-child(3) { text-align: right; }
td.block { white-space: normal; min-width: 9rem; max-width: 15rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin-bottom: .3rem; }
pre { background: var(--line); padding: .6rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; }
.note { opacity: .75; }
"""


def without_paths(text: str) -> str:
    """The text without names of folders of this machine and of its users."""
    text = re.sub(r"(?<![\w/.:])(?:/[\w.+-]+){2,}/([\w.+-]+)", r".../\1", text)
    return re.sub(r"\b[A-Za-z]:\\[\w.\\+-]+\\([\w.+-]+)", r"...\\\1", text)


def write(document: Result, folder: pathlib.Path) -> None:
    """Writes all four files; the folder is created."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"results.json": (json.dumps(document, indent=1, default=str) + "\n").encode()}
    files |= {"junit.xml": junit(document["results"])}
    files |= {"index.html": page(document).encode(), "issue.md": issue(document).encode()}
    for name, content in files.items():
        scratch = folder / (name + ".part")
        scratch.write_bytes(content)
        scratch.replace(folder / name)  # a full disk leaves the former file


def junit(results: list[Result]) -> bytes:
    """The results as JUnit's XML: a suite for each model type."""
    root = ElementTree.Element("testsuites")
    for kind in sorted({r["type"] for r in results}):
        mine = [r for r in results if r["type"] == kind]
        counts = {"tests": len(mine), "failures": sum(r["status"] in BAD for r in mine)}
        counts["skipped"] = sum(r["status"] == "skipped" for r in mine)
        suite = ElementTree.SubElement(root, "testsuite", name=kind, **{k: str(v) for k, v in counts.items()})
        for r in mine:
            about = {"classname": kind, "name": r["test"], "time": str(r.get("seconds", 0))}
            case = ElementTree.SubElement(suite, "testcase", about)
            if r["status"] in BAD:
                ElementTree.SubElement(case, "failure", message=clean_xml(r["reason"])[:200]).text = clean_xml(
                    r["reason"]
                )
            elif r["status"] == "skipped":
                ElementTree.SubElement(case, "skipped", message=clean_xml(r["reason"]))
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def clean_xml(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def escape(value: Any) -> str:
    return html.escape(str(value))


def dtypes_of(status: str, results: list[Result]) -> str:
    """The data types that failed, where others of the same check did not."""
    bad = list(dict.fromkeys(r["dtype"] for r in results if r["status"] in BAD and r["dtype"]))
    good = {r["dtype"] for r in results if r["dtype"]} - set(bad)
    return f"<small>{escape(' '.join(bad))}</small>" if status in BAD and bad and good else ""


def matrix(results: list[Result]) -> str:
    """Model types by checks; a cell shows the worst outcome of its tests, and says which they are when pointed at."""
    checks = list(dict.fromkeys(r["check"] for r in results))
    cells: dict[tuple[str, str], list[Result]] = {}
    for r in results:
        cells.setdefault((r["type"], r["check"]), []).append(r)
    rows = ["<tr><th>type</th>" + "".join(f'<th class="turn">{escape(c)}</th>' for c in checks) + "</tr>"]
    for kind in sorted({r["type"] for r in results}):
        row = [f"<th>{escape(kind)}</th>"]
        for check in checks:
            mine = cells.get((kind, check), [])
            status = next((s for s in STATUSES if any(r["status"] == s for r in mine)), "")
            title = "\n".join(f"{r['test']}: {r['status']}" for r in mine[:12])
            text = MARKS.get(status, "") + dtypes_of(status, mine)
            row.append(f'<td class="cell {status}" title="{escape(title)}">{text}</td>')
        rows.append("<tr>" + "".join(row) + "</tr>")
    return '<div class="scroll"><table>' + "".join(rows) + "</table></div>"


def position(ratio: float) -> float:
    """Percent of a bar's width: 10^-3 to 10^3 on a logarithmic axis, the limit in the middle."""
    return 100 * min(1.0, max(0.0, (math.log10(max(ratio, 1e-3)) + 3) / 6))


def block_of(result: Result) -> str:
    """The block without the type, which some checks add to it: types with the same block are one row."""
    return str(result["block"]).replace(f" ({result['type']})", "")


def bars(results: list[Result], most: int = 25) -> str:
    """The largest errors as shares of their limits; a test of the same block in several types is one row."""
    measured = sorted((r for r in results if r.get("ratio") is not None), key=lambda r: -float(r["ratio"]))
    groups: dict[tuple[str, str], list[Result]] = {}
    for r in measured:
        groups.setdefault((r["test"], block_of(r)), []).append(r)
    if not measured:
        return '<p class="note">Nothing was measured.</p>'
    axis = '<div class="axis"><span>0.001</span><span>1 = limit</span><span>1000</span></div>'
    rows = [
        "<tr><th>type</th><th>test</th><th>block</th><th class=number>error</th>"
        "<th class=number>CPU's error</th><th class=number>share</th>"
        f"<th>share of the limit, logarithmic{axis}</th></tr>"
    ]
    for same in list(groups.values())[:most]:
        r, more = same[0], len({r["type"] for r in same}) - 1
        ratio = float(r["ratio"])
        over = " class=over" if ratio > 1 else ""
        bar = f'<div class="bar"><i{over} style="width:{position(ratio):.1f}%"></i><b style="left:50%"></b></div>'
        values = (float(r["error"] or 0), float(r["reference_error"] or 0))
        numbers = "".join(f'<td class="number">{text}</td>' for text in (*map("{:.2e}".format, values), f"{ratio:.3g}"))
        kind = r["type"] + (f" and {more} more" if more else "")
        names = f"<td>{escape(kind)}</td><td>{escape(r['test'])}</td><td class=block>{escape(block_of(r))}</td>"
        rows.append(f"<tr>{names}{numbers}<td>{bar}</td></tr>")
    return '<div class="scroll"><table>' + "".join(rows) + "</table></div>"


def linked(text: str) -> str:
    """The text as HTML, with its addresses as links."""
    return re.sub(r"(https://[\w./#%+-]+[\w/])", r'<a href="\1">\1</a>', escape(text))


def reasons(results: list[Result]) -> str:
    """Skips by reason, the most frequent first."""
    counts: dict[str, list[str]] = {}
    for r in results:
        if r["status"] == "skipped":
            counts.setdefault(r["reason"], []).append(f"{r['type']}: {r['check']}")
    rows = ["<tr><th>tests</th><th>reason</th><th>where</th></tr>"]
    for reason, tests in sorted(counts.items(), key=lambda item: -len(item[1])):
        names = sorted(set(tests))
        where = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        texts = f'<td class="text">{linked(reason)}</td><td class="text">{escape(where)}</td>'
        rows.append(f'<tr><td class="number">{len(tests)}</td>{texts}</tr>')
    return '<div class="scroll"><table>' + "".join(rows) + "</table></div>" if counts else '<p class="note">None.</p>'


def failures(results: list[Result]) -> str:
    """Failures of a type with the same reason are one entry."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for r in results:
        if r["status"] in BAD:
            groups.setdefault((r["type"], r["status"], r["reason"]), []).append(r["test"])
    parts = []
    for (kind, status, reason), tests in groups.items():
        more = f" and {len(tests) - 1} more tests" if len(tests) > 1 else ""
        search = f"gabbro testgen --bisect '{tests[0]}' {kind}" if re.search("times the limit|crashed", reason) else ""
        search = f"<p class=note>The operation behind it: <code>{escape(search)}</code></p>" if search else ""
        parts.append(f"<h3>{escape(kind)}: {escape(tests[0])}{more} ({status})</h3><pre>{linked(reason)}</pre>{search}")
    return "".join(parts)


def facts_of(document: Result) -> list[str]:
    """Versions, cards and variables, one line each."""
    machine = document["machine"]
    lines = [f"{name} {version}" for name, version in document["versions"].items()]
    tested = sorted({r["device"] for r in document["results"] if r.get("device")})
    lines += [f"tested on {', '.join(tested)}"] if tested else []
    for device in machine.get("torch", {}).get("devices", []):
        lines.append(f"{device['name']} {device['gfx'] or device['sm']}, {device['memory'] / 2**30:.0f} GiB")
    lines += [
        f"{card['pci']} {card['gfx']}: {card['reason']}" for card in machine.get("cards", []) if card["link"] != "none"
    ]
    lines += [f"{name}={value}" for name, value in machine.get("environment", {}).items()]
    return lines + list(machine.get("contradictions", []))


def page(document: Result) -> str:
    """The page, self-contained."""
    results = document["results"]
    counts = {s: sum(r["status"] == s for r in results) for s in STATUSES}
    summary = ", ".join(f"{n} {s}" for s, n in counts.items() if n) or "no tests"
    facts = "".join(f"<li>{escape(line)}</li>" for line in facts_of(document))
    parts = [
        f"<h1>Model tests</h1><p>{escape(summary)} in {document.get('seconds', 0)} s</p><ul>{facts}</ul>",
        "<h2>Types and checks</h2><p class=note>A cell is the worst of its tests; point at it for their names. "
        "A dash: skipped, with its reason below. Empty: the check does not apply.</p>" + matrix(results),
        "<h2>Largest errors</h2><p class=note>The limit is 3 times the CPU's error in the same data type "
        "(4 in f16 and bf16), plus a floor.</p>" + bars(results),
        "<h2>Failures</h2>" + (failures(results) or '<p class="note">None.</p>'),
        "<h2>Skipped, and why</h2>" + reasons(results),
    ]
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Model tests</title><style>{STYLE}</style>'
    return head + "\n".join(parts) + "</html>\n"


def issue(document: Result) -> str:
    """Markdown for a report to a project: the facts and the failures, without private paths."""
    failed = [r for r in document["results"] if r["status"] in BAD]
    lines = ["## Environment", "", *(f"- {line}" for line in facts_of(document)), "", f"## {len(failed)} failures", ""]
    for r in failed[:20]:
        lines += [f"### {r['type']}: `{r['test']}` ({r['status']})", "", "```", r["reason"], "```", ""]
    if len(failed) > 20:
        lines.append(f"and {len(failed) - 20} more")
    return without_paths("\n".join(lines)) + "\n"
