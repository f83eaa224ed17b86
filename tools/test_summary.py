#!/usr/bin/env python3
"""Counts test cases: what CTest's JUnit files say, refined by the XML that GoogleTest programs wrote beside them.

    test_summary.py FOLDER...

A FOLDER holds ctest.xml and one <program>.xml for each GoogleTest program. Prints what failed and what was skipped,
then `N passed, N failed` (and `, N skipped`); exits 1 when something failed or nothing ran.
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


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
            cases.append((name, "failed", ""))
        elif case.get("status") == "notrun" or case.get("result") in ("skipped", "suppressed") or skipped is not None:
            reason = skipped.get("message", "").strip() if skipped is not None else "disabled"
            cases.append((name, "skipped", reason))
        else:
            cases.append((name, "passed", ""))
    return cases


def cases_of(folder):
    """All cases of one CTest run."""
    for test in ElementTree.parse(folder / "ctest.xml").getroot().iter("testcase"):
        name, status = test.get("name"), test.get("status")
        cases = gtest_cases(folder / f"{name}.xml")
        yield from cases
        if status == "fail" and not any(case[1] == "failed" for case in cases):
            yield name, "failed", "the program ended badly"  # a crash, a time-out, a sanitizer's report
        elif status in ("notrun", "disabled"):
            yield name, "skipped", status
        elif status == "run" and not cases:
            yield name, "passed", ""


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for folder in map(pathlib.Path, sys.argv[1:]):
        try:
            cases = list(cases_of(folder))
        except (OSError, ElementTree.ParseError) as error:
            cases = [(str(folder), "failed", f"no result: {error}")]
        for name, status, reason in cases:
            counts[status] += 1
            if status != "passed":
                print(f"{status}: {folder.name}: {name}" + (f": {reason}" if reason else ""))
    line = f"{counts['passed']} passed, {counts['failed']} failed"
    print(line + (f", {counts['skipped']} skipped" if counts["skipped"] else ""))
    sys.exit(1 if counts["failed"] or not counts["passed"] else 0)


if __name__ == "__main__":
    main()
