#!/usr/bin/env python3
"""Counts test cases: CTest's JUnit files, refined by the XML that GoogleTest programs wrote next to them.

    test_summary.py RESULTS

RESULTS is what ./test left: a folder for each CTest run, with ctest.xml and one <program>.xml for each GoogleTest
program; or with pytest.xml, which pytest wrote; and checks.tsv, `passed|failed|skipped <tab> name` for each check that is
not CTest's. Prints what was skipped (one line for all cases with the same reason), then what failed, then
`N passed, N failed` (and `, N skipped`); exits 1 when something failed or nothing ran.
"""
import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def shortened(text, lines=6):
    """The first lines of a failure's message, indented below its name."""
    kept = [line for line in (text or "").strip().splitlines() if line.strip()][:lines]
    return "".join(f"\n    {line[:300]}" for line in kept)


def gtest_cases(path):
    """(name, status, reason) of each case of a GoogleTest program; none where it wrote no valid file."""
    try:
        suites = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return []  # it crashed before it could write
    cases = []
    for case in suites.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None:
            cases.append((name, "failed", shortened(case.find("failure").get("message"))))
        elif case.get("status") == "notrun" or case.get("result") in ("skipped", "suppressed") or skipped is not None:
            reason = skipped.get("message", "").strip() if skipped is not None else "disabled"
            cases.append((name, "skipped", reason))
        else:
            cases.append((name, "passed", ""))
    return cases


def pytest_cases(path):
    """(name, status, reason) of each case of a pytest run."""
    tests = list(ElementTree.parse(path).getroot().iter("testcase"))
    if not tests:
        yield "pytest", "failed", "no tests were found"
    for test in tests:
        name = f"{test.get('classname')}.{test.get('name')}"
        skipped = test.find("skipped")
        problem = test.find("failure") if test.find("failure") is not None else test.find("error")
        if problem is not None:
            yield name, "failed", shortened(problem.get("message"))
        else:
            yield name, "passed" if skipped is None else "skipped", "" if skipped is None else skipped.get("message", "")


def cases_of(folder):
    """All cases of one run."""
    if (folder / "pytest.xml").exists():
        yield from pytest_cases(folder / "pytest.xml")
        return
    tests = list(ElementTree.parse(folder / "ctest.xml").getroot().iter("testcase"))
    if not tests:
        yield "ctest", "failed", "no tests were found"
    for test in tests:
        name, status = test.get("name"), test.get("status")
        cases = gtest_cases(folder / f"{name}.xml")
        yield from cases
        if status == "fail" and not any(case[1] == "failed" for case in cases):
            # A crash, a time-out, a sanitizer's report, or a script, whose end says why.
            output = (test.findtext("system-out") or "").strip().splitlines()
            yield name, "failed", "the program ended badly" + shortened("\n".join(output[-12:]), 12)
        elif status in ("notrun", "disabled"):
            yield name, "skipped", status
        elif status == "run" and not cases:
            yield name, "passed", ""


def all_cases(results):
    """(run, name, status, reason) of everything under `results`."""
    checks = results / "checks.tsv"
    for line in checks.read_text().splitlines() if checks.exists() else []:
        status, name = line.split("\t", 1)
        yield "checks", name, status, ""
    for folder in sorted(path for path in results.iterdir() if path.is_dir()):
        try:
            for case in list(cases_of(folder)):
                yield folder.name, *case
        except (OSError, ElementTree.ParseError) as error:
            yield folder.name, "ctest", "failed", f"no result: {error}"


def main():
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1]).is_dir():
        sys.exit("usage: test_summary.py RESULTS")
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failed, skipped = [], collections.defaultdict(list)
    for run, name, status, reason in all_cases(pathlib.Path(sys.argv[1])):
        counts[status] += 1
        if status == "failed":
            failed.append(f"failed: {run}: {name}" + (f": {reason}" if reason else "").replace(": \n", "\n"))
        elif status == "skipped":
            skipped[run, reason].append(name)
    for (run, reason), names in skipped.items():
        listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        print(f"skipped: {run}: {listed}" + (f": {' '.join(reason.split())}" if reason else ""))
    # Last: of a long log, the end is what people look at.
    print("".join(f"{line}\n" for line in failed), end="")
    line = f"{counts['passed']} passed, {counts['failed']} failed"
    print(line + (f", {counts['skipped']} skipped" if counts["skipped"] else ""))
    sys.exit(1 if counts["failed"] or not counts["passed"] else 0)


if __name__ == "__main__":
    main()
