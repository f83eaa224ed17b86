#!/usr/bin/env python3
"""Counts test cases: CTest's JUnit files, refined by the XML that GoogleTest programs wrote next to them.

    test_summary.py RESULTS

RESULTS is what ./test left: a folder for each CTest run, with ctest.xml and one <program>.xml for each GoogleTest
program; or with pytest.xml, which pytest wrote; and checks.tsv, `passed|failed|skipped <tab> name` for each check that is not CTest's. Prints what failed and what was
skipped, then `N passed, N failed` (and `, N skipped`); exits 1 when something failed or nothing ran.
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


def pytest_cases(path):
    """(name, status, reason) of each case of a pytest run."""
    tests = list(ElementTree.parse(path).getroot().iter("testcase"))
    if not tests:
        yield "pytest", "failed", "no tests were found"
    for test in tests:
        name = f"{test.get('classname')}.{test.get('name')}"
        skipped = test.find("skipped")
        if test.find("failure") is not None or test.find("error") is not None:
            yield name, "failed", ""
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
            yield name, "failed", "the program ended badly"  # a crash, a time-out, a sanitizer's report
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
    for run, name, status, reason in all_cases(pathlib.Path(sys.argv[1])):
        counts[status] += 1
        if status != "passed":
            print(f"{status}: {run}: {name}" + (f": {reason}" if reason else ""))
    line = f"{counts['passed']} passed, {counts['failed']} failed"
    print(line + (f", {counts['skipped']} skipped" if counts["skipped"] else ""))
    sys.exit(1 if counts["failed"] or not counts["passed"] else 0)


if __name__ == "__main__":
    main()
