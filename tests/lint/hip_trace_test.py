#!/usr/bin/env python3
"""tools/hip_trace on records made here: the same calls, and one difference of each kind."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "hip_trace"
# Thread, call, arguments, result, outputs.
CALLS = [(1, "hipInit", [0], 0, []), (1, "hipMalloc", ["data", 64], 0, ["mem1"]),
         (2, "hipStreamCreateWithFlags", ["data", 1], 0, ["stream1"]),
         (1, "hipMemcpyHtoDAsync", ["mem1+16", "host", 4, "stream1"], 0, []),
         (2, "hipMemGetInfo", ["data", "data"], 0, [1000, 2000])]


def lines(calls):
    out = []
    for number, (thread, call, args, result, outputs) in enumerate(calls, 1):
        out.append(json.dumps({"n": number, "thread": thread, "at": number, "call": call, "args": args}))
        if result is not None:
            out.append(json.dumps({"n": number, "result": result, "us": 1.5, "out": outputs}))
    return out


def changed(index, **fields):
    names = ("thread", "call", "args", "result", "outputs")
    return [tuple(fields.get(name, value) for name, value in zip(names, call)) if i == index else call
            for i, call in enumerate(CALLS)]


class HipTrace(unittest.TestCase):
    def compare(self, first, second, *options):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder, name) for name in ("first", "second")]
            for file, text in zip(files, (first, second)):
                file.write_text("\n".join(text) + "\n")
            done = subprocess.run([TOOL, *options, *files], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def expect(self, calls, code, text, *options):
        found, out = self.compare(lines(CALLS), lines(calls), *options)
        self.assertEqual(found, code, out)
        self.assertIn(text, out)

    def test_same(self):
        self.expect(CALLS, 0, "the same 5 calls")

    def test_names_and_order_of_threads_do_not_matter(self):
        renamed = json.loads(json.dumps([CALLS[2], *CALLS[:2], *CALLS[3:]]).replace("mem1", "mem7").replace("stream1", "stream4"))
        self.expect(renamed, 0, "the same 5 calls")

    def test_differences(self):
        self.expect(changed(1, result=2), 1, "thread 1, call 2: result differs")
        self.expect(changed(3, args=["mem1+32", "host", 4, "stream1"]), 1, "thread 1, call 3: arguments differs")
        self.expect(changed(2, call="hipStreamCreate"), 1, "thread 2, call 1: call differs")
        self.expect(changed(3, args=["mem1+16", "host", 4, "null"]), 1, 'second: hipMemcpyHtoDAsync("mem1+16", "host", 4, "null")')
        self.expect(CALLS[:4], 1, "second: nothing more")
        self.expect(changed(3, result=None), 1, "no return (call 4)")

    def test_outputs_on_demand(self):
        other = changed(4, outputs=[999, 2000])
        self.expect(other, 0, "the same")
        self.expect(other, 1, "thread 2, call 2: outputs differs", "--outputs")
        self.expect(other, 0, "the same", "--outputs", "--ignore", "hipMemGetInfo")

    def test_files_that_are_none(self):
        self.assertEqual(self.compare(lines(CALLS), ["text", "text"])[0], 2)
        code, out = self.compare(lines(CALLS), [*lines(CALLS)[:3], "{\"n\": 3, \"thr"])  # the process ended here
        self.assertEqual(code, 1, out)


if __name__ == "__main__":
    sys.exit(unittest.main())
