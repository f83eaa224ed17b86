"""Model files that change while they are used: an error that names the file and exit code 1, or the right answer."""
import os
import shutil
import subprocess
import time

import changed_files
import support
from random_model import write
from support import PROGRAM, SANITIZED, TINY_F16, TestCase


class ChangedFiles(TestCase):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "m.gguf"
        write(self.model, changed_files.SMALL, "f16", context=4096)

    def begun(self, *arguments):
        """A program whose first output has come."""
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.assertTrue(os.read(process.stdout.fileno(), 1))
        return process

    def ends(self, process, *says):
        out, err = process.communicate(timeout=support.TIMEOUT)
        self.assertEqual(process.returncode, 1, err)
        lines = [line for line in err.decode().splitlines() if line.startswith("gabbro: error: ")]
        self.assertEqual(len(lines), 1, err)
        for word in (str(self.model), *says):
            self.assertIn(word, lines[0])

    def test_a_file_that_is_cut_during_an_answer(self):
        for size in (4096, 0, self.model.stat().st_size - 10):
            write(self.model, changed_files.SMALL, "f16", context=4096)
            process = self.begun("run", self.model, "--raw", "-n", "4000", "abc")
            os.truncate(self.model, size)
            self.ends(process, f"and has {size} now")

    def test_a_file_that_is_written_to_during_an_answer(self):
        process = self.begun("run", self.model, "--raw", "-n", "4000", "abc")
        with open(self.model, "r+b") as file:
            file.seek(-4096, os.SEEK_END)
            file.write(bytes(4096))
        self.ends(process, "was written to")

    def test_the_next_row_of_prompts_says_so(self):
        prompts = self.file("p.txt", "one\ntwo\nthree\nfour\n" * 50)
        process = self.begun("run", self.model, "--raw", "-n", "40", "--prompts", prompts, "--parallel", "1")
        os.utime(self.model)
        self.ends(process, "was written to")

    def test_a_file_that_is_replaced_stays_what_it_was(self):
        arguments = ["run", self.model, "--raw", "-n", "200", "abc"]
        whole = self.succeeds(*arguments).out
        process = self.begun(*arguments)
        shutil.copy(TINY_F16, self.folder / "new")
        os.replace(self.folder / "new", self.model)
        out, err = process.communicate(timeout=support.TIMEOUT)
        self.assertEqual((process.returncode, whole[:1] + out), (0, whole), err)

    def test_an_interrupted_conversion_leaves_no_result(self):
        out = self.folder / "out.gguf"
        process = subprocess.Popen([PROGRAM, "convert", self.model, "--type", "iq3_s", "-t", "1", "-o", out],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not (self.folder / "out.gguf.partial.parts").exists() and process.poll() is None:
            time.sleep(0.001)
        os.truncate(self.model, 4096)
        self.ends(process, "4096 now")
        self.assertFalse(out.exists())

    def test_some_random_rounds(self):
        seed = int.from_bytes(os.urandom(2), "little")
        problems, verdicts = changed_files.rounds(4 if SANITIZED else 10, seed, changed_files.SMALL)
        self.assertEqual(problems, [], f"seed {seed}")


if __name__ == "__main__":
    support.main()
