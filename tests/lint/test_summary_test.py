#!/usr/bin/env python3
"""tools/test_summary.py counts what ran, and lets nothing that failed or was skipped go unseen."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SUMMARY = pathlib.Path(__file__).resolve().parents[2] / "tools/test_summary.py"


def ctest(*tests):
    return "<testsuite>" + "".join(f'<testcase name="{n}" status="{s}"/>' for n, s in tests) + "</testsuite>"


def gtest(*cases):
    inner = {"passed": "", "failed": "<failure/>", "skipped": '<skipped message="no card"/>'}
    return ("<testsuites><testsuite>" +
            "".join(f'<testcase classname="S" name="{n}" status="run">{inner[s]}</testcase>' for n, s in cases) +
            "</testsuite></testsuites>")


def summary_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, str(SUMMARY), folder], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()


class TestSummary(unittest.TestCase):
    def test_cases_of_a_program_are_counted_one_by_one(self):
        files = {"unit/ctest.xml": ctest(("a_test", "run"), ("script", "run")),
                 "unit/a_test.xml": gtest(("X", "passed"), ("Y", "passed")), "checks.tsv": "passed\tformat\n"}
        self.assertEqual(summary_of(files), (0, ["4 passed, 0 failed"]))

    def test_a_failed_case_and_a_failed_check_fail(self):
        files = {"unit/ctest.xml": ctest(("a_test", "fail")), "unit/a_test.xml": gtest(("X", "passed"), ("Y", "failed")),
                 "checks.tsv": "failed\tformat\n"}
        self.assertEqual(summary_of(files), (1, ["failed: checks: format", "failed: unit: S.Y", "1 passed, 2 failed"]))

    def test_a_program_that_crashed_fails_though_its_cases_passed_or_are_unknown(self):
        crashed = {"unit/ctest.xml": ctest(("a_test", "fail"))}
        self.assertEqual(summary_of(crashed)[1][-1], "0 passed, 1 failed")
        self.assertEqual(summary_of({**crashed, "unit/a_test.xml": gtest(("X", "passed"))})[1][-1], "1 passed, 1 failed")
        self.assertEqual(summary_of({**crashed, "unit/a_test.xml": "<testsuites>"})[1][-1], "0 passed, 1 failed")

    def test_what_was_skipped_is_named_with_its_reason(self):
        files = {"unit/ctest.xml": ctest(("a_test", "run"), ("b_test", "notrun")),
                 "unit/a_test.xml": gtest(("X", "passed"), ("Y", "skipped"))}
        self.assertEqual(summary_of(files), (0, ["skipped: unit: S.Y: no card", "skipped: unit: b_test: notrun",
                                                 "1 passed, 0 failed, 2 skipped"]))

    def test_skipped_cases_with_one_reason_are_one_line_and_failures_come_last(self):
        files = {"a/ctest.xml": ctest(("a_test", "fail")), "b/ctest.xml": ctest(("b_test", "run")),
                 "a/a_test.xml": gtest(("X", "failed")),
                 "b/b_test.xml": gtest(*((name, "skipped") for name in "VWXYZ"))}
        self.assertEqual(summary_of(files), (1, ["skipped: b: S.V, S.W, S.X and 2 more: no card", "failed: a: S.X",
                                                 "0 passed, 1 failed, 5 skipped"]))

    def test_a_failure_is_told_with_its_message(self):
        case = '<testcase classname="S" name="X" status="run"><failure message="x.cc:3&#10;expected 1"/></testcase>'
        files = {"a/ctest.xml": '<testsuite><testcase name="a_test" status="fail"/><testcase name="script" '
                                'status="fail"><system-out>all is bad</system-out></testcase></testsuite>',
                 "a/a_test.xml": f"<testsuites><testsuite>{case}</testsuite></testsuites>"}
        self.assertEqual(summary_of(files)[1], ["failed: a: S.X", "    x.cc:3", "    expected 1", "failed: a: script: "
                                                "the program ended badly", "    all is bad", "0 passed, 2 failed"])

    def test_nothing_run_is_a_failure(self):
        self.assertEqual(summary_of({"checks.tsv": ""}), (1, ["0 passed, 0 failed"]))
        self.assertEqual(summary_of({"unit/ctest.xml": ctest()})[0], 1)
        self.assertEqual(summary_of({"unit/ctest.xml": "<testsuite>"})[0], 1)


if __name__ == "__main__":
    unittest.main()
