"""What sweep_cards.py found: summary.json and summary.md from its rows, one a test, a planted fault or a process."""
import collections
import json

BAD = ("failed", "crashed", "timeout")
DTYPES = ("f32", "bf16", "f16")
ON_DEVICE = ("sweep", "probe", "true", "compile", "quiet")


def key_of(row):
    """The test without its device, in its phase."""
    test = row["test"].replace("cuda:0", "cpu")
    return row.get("of", row["phase"]), row["type"], test


def compared(rows):
    """(failed row, verdict) for each test that failed on the device: "alarm", "known", "fails on the CPU too" or "not
    compared". Known: known_faults.json has the failure.

    A test without a turn on the CPU, or that was skipped or cut off there, has the reason that another test of the type
    had on the CPU; without such a reason it was not compared.
    """
    control = [row for row in rows if row["phase"] == "control"]
    controls = {key_of(row): row["status"] for row in control}
    reasons = {(row["type"], first_line(row)) for row in control if row["status"] in BAD}
    for row in rows:
        if row["phase"] in ON_DEVICE and row["status"] in BAD:
            status = controls.get(key_of(row))
            if "\nknown: " in row.get("reason", ""):
                yield row, "known"
            elif status in BAD or (status != "passed" and (row["type"], first_line(row)) in reasons):
                yield row, "fails on the CPU too"
            else:
                yield row, "not compared" if status is None else "alarm"


def alarms(rows):
    """Tests that failed on the device and not on the CPU."""
    return [row for row, verdict in compared(rows) if verdict == "alarm"]


def not_compared(rows):
    """Tests that failed on the device, and whose turn on the CPU did not come."""
    return [row for row, verdict in compared(rows) if verdict == "not compared"]


def first_line(row):
    return (row.get("reason", "").splitlines() or [""])[0][:300]


def types_of(rows):
    """{type: {dtype: {"status", counts, "reasons"}}} of the sweep; "any" has the tests without a data type."""
    verdicts = {id(row): verdict for row, verdict in compared(rows)}
    table = {}
    for row in rows:
        if row["phase"] != "sweep":
            continue
        cell = table.setdefault(row["type"], {}).setdefault(row["dtype"] or "any", collections.Counter())
        status = row["status"]
        if status in BAD:
            status = verdicts[id(row)]
        cell[status] += 1
        if status != "passed":
            reasons = table[row["type"]].setdefault("reasons", {})
            reasons.setdefault(f"{status}: {first_line(row)}", []).append(row["test"])
    for cells in table.values():
        for name, cell in cells.items():
            if name != "reasons":
                cells[name] = {"result": result_of(cell), **cell}
    return table


def lines_of(rows):
    """A line for each type of the rows: counts of the sweep, and of its second size."""
    types = {}
    for row in rows:
        if row["phase"] == "sweep":
            cell = types.setdefault(row["type"], collections.Counter())
            for prefix in ("", "heads ") if row.get("size") == "heads" else ("",):
                cell[prefix + ("failed" if row["status"] in BAD else row["status"])] += 1
            cell["seconds"] += row.get("seconds") or 0
    for name, cell in types.items():
        one, other = (", ".join(f"{cell[prefix + word]} {word}" for word in ("passed", "failed", "skipped"))
                      for prefix in ("", "heads "))
        yield f"{name}: {one}; of these with heads of the real size {other}; {cell['seconds']:.0f} s"


def result_of(counts):
    for verdict in ("alarm", "not compared"):
        if counts[verdict]:
            return verdict
    for verdict in ("fails on the CPU too", "known"):
        if counts[verdict]:
            return verdict
    return "pass" if counts["passed"] else "skip"


def measures_of(rows):
    """{dtype: largest and 99 % of the share of the limit and of e / r}, of all comparisons that passed or failed."""
    table = {}
    for dtype in DTYPES:
        mine = [r for r in rows if r["phase"] in ("sweep", "true") and r.get("dtype") == dtype]
        mine = [r for r in mine if r.get("ratio") is not None]
        ratios = sorted(float(r["ratio"]) for r in mine)
        # The quotient says nothing where the CPU's error is far below the floor.
        factors = sorted(float(r["factor"]) for r in mine if float(r["limit"]) < 6 * float(r["reference_error"]))
        table[dtype] = {"comparisons": len(ratios)}
        for name, values in (("ratio", ratios), ("factor", factors)):
            if values:
                table[dtype][name] = {"largest": values[-1], "p99": values[int(0.99 * (len(values) - 1))],
                                      "median": values[len(values) // 2]}
    return table


def faults_of(rows):
    """{dtype: planted, found, missed, by one check alone}."""
    from measure_mutants import EQUIVALENT

    table = {}
    for dtype in DTYPES:
        mine = [row for row in rows if row["phase"] == "fault" and row["dtype"] == dtype]
        planted = [row for row in mine if row.get("changed") and (row["type"], row["fault"]) not in EQUIVALENT]
        if not mine:
            continue
        found = [row for row in planted if row["layers"] or row["end_to_end"]]
        missed = [f"{r['type']}: {r['fault']}" for r in planted if not r["layers"] and not r["end_to_end"]]
        table[dtype] = {
            "planted": len(planted), "found": len(found), "missed": missed,
            "layers alone": sum(r["layers"] and not r["end_to_end"] for r in planted),
            "end_to_end alone": sum(r["end_to_end"] and not r["layers"] for r in planted),
            "refused": [f"{r['type']}: {r['fault']}: {r['failed'][:160]}" for r in mine if "failed" in r],
        }
    return table


def summary_of(rows, facts, seconds, planted_any=True):
    types, wrong, faults, open_rows = types_of(rows), alarms(rows), faults_of(rows), not_compared(rows)
    phases = collections.defaultdict(collections.Counter)
    for row in rows:
        phases[row.get("of", "") + row["phase"]][row.get("status", "")] += 1
    totals = {dtype: collections.Counter(cells[dtype]["result"] for cells in types.values() if dtype in cells)
              for dtype in (*DTYPES, "any")}
    cut = sorted({row["job"].removeprefix("sweep-") for row in rows if row["phase"] == "process"} & set(types))
    planted = faults.get("f32", {"planted": 0, "found": 0})
    share = planted["found"] / planted["planted"] if planted["planted"] else None
    heads = {row["type"] for row in rows if row["phase"] == "sweep" and row.get("size") == "heads"
             and row["status"] == "passed"}
    versions = {}
    for name in ("torch", "transformers", "pytest"):
        module = __import__(name)
        versions[name] = module.__version__
    return {
        "seconds": round(seconds, 1), "versions": versions, "machine": facts,
        "types_run": len(types), "types_of_second_size": len(heads), "types_cut_off": cut, "totals": totals,
        "alarms": wrong,
        "not_compared": open_rows, "faults": faults,
        "fault_share_f32": share, "measures": measures_of(rows),
        "phases": phases, "processes": [row for row in rows if row["phase"] == "process"],
        "not_run": [row["job"] for row in rows if row["phase"] == "not run"],
        "bisect": [row for row in rows if row["phase"] == "bisect"],
        "searches": [row for row in rows if row["phase"] == "search"], "types": types,
        "good": not wrong and not open_rows and (not planted_any or (share or 0.0) >= 0.98),
    }


def markdown(summary):
    cards = [device["name"] for device in summary["machine"].get("torch", {}).get("devices", [])] or ["CPU"]
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    cut = f", {len(summary['types_cut_off'])} of them not to the end" if summary["types_cut_off"] else ""
    second = f", {summary['types_of_second_size']} with the second size"
    lines = [f"# {summary['types_run']} model types on {cards[0]}{cut}{second}", "",
             f"{versions}; {summary['seconds']:.0f} s", "",
             "| dtype | types pass | fail on the CPU too | known | not compared | alarm | skip | of limit | e / r |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for dtype, row in summary["totals"].items():
        measure = summary["measures"].get(dtype, {})
        largest, factor = (measure.get(k, {}).get(w) for k, w in (("ratio", "largest"), ("factor", "p99")))
        verdicts = ("pass", "fails on the CPU too", "known", "not compared", "alarm", "skip")
        cells = [row.get(name, 0) for name in verdicts]
        lines.append(f"| {dtype} | " + " | ".join(str(cell) for cell in cells) + f" | {largest} | {factor} |")
    lines += ["", "| phase | passed | skipped | failed, crashed, timeout |", "| --- | --- | --- | --- |"]
    for phase, row in summary["phases"].items():
        if phase in ON_DEVICE:
            lines.append(f"| {phase} | {row['passed']} | {row['skipped']} | {sum(row[name] for name in BAD)} |")
    lines += ["", "| faults | planted | found | missed |", "| --- | --- | --- | --- |"]
    for dtype, row in summary["faults"].items():
        lines.append(f"| {dtype} | {row['planted']} | {row['found']} | {', '.join(row['missed'][:20])} |")
    lines += ["", f"{len(summary['alarms'])} alarms (the device alone fails):", ""]
    lines += [f"- {row['phase']} {row['type']} `{row['test']}`: {first_line(row)}" for row in summary["alarms"][:100]]
    lines += ["", f"{len(summary['not_compared'])} failures were not compared with the CPU:", ""]
    lines += [f"- {row['type']} `{row['test']}`: {first_line(row)}" for row in summary["not_compared"][:30]]
    lines += ["", "Found by the search:", ""]
    lines += [f"- {row['type']} `{row['test']}`: {row.get('block')}, {row.get('operation')}: {row.get('what')}"
              for row in summary["bisect"]]
    lines += ["", "Searches for planted faults:", ""]
    lines += [f"- {row['type']} {row['fault']}: {row['outcome']}, {row.get('block')}, {row.get('operation')}, "
              f"{row.get('seconds', 0):.0f} s" for row in summary["searches"]]
    lines += ["", "Types that fail on the CPU too, and known faults:", ""]
    for name, cells in summary["types"].items():
        for reason, tests in cells.get("reasons", {}).items():
            if reason.startswith(("fails", "known")):
                lines.append(f"- {name} ({len(tests)} tests, {tests[0]}): {reason.partition(': ')[2]}")
    lines += ["", f"Not run: {', '.join(summary['not_run']) or 'none'}", ""]
    lines += [f"- process {row['job']}: {first_line(row)}" for row in summary["processes"]]
    return "\n".join(lines) + "\n"


def write(rows, facts, out, seconds, planted_any=True):
    """Writes summary.json and summary.md; planted_any: faults are part of the run, so that none found is not good."""
    summary = summary_of(rows, facts, seconds, planted_any)
    for name, text in (("summary.json", json.dumps(summary, indent=1, default=str)), ("summary.md", markdown(summary))):
        part = out / f".{name}"
        part.write_text(text)
        part.replace(out / name)
    return summary
