#!/usr/bin/env python3
"""tools/emulator_corrections.py corrects a copy, and says so where there is nothing to correct."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import emulator_corrections
from emulator_corrections import Correction

FILE = "test/cards/emu.py"
CORRECTIONS = [Correction(FILE, "two = 3", "two = 2"), Correction(FILE, "three = two", "three = two + 1")]


class Corrected(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.checkout, self.folder = pathlib.Path(scratch.name) / "checkout", pathlib.Path(scratch.name) / "folder"
        for name, text in {FILE: "two = 3\nthree = two\n", "test/cards/other.py": "one = 1\n", "README": "text\n"}.items():
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (self.checkout / name).write_text(text)

    def test_the_folder_is_the_checkout_with_all_corrections(self):
        for _ in range(2):  # the second time over what is there
            emulator_corrections.corrected(self.checkout, self.folder, CORRECTIONS)
            self.assertEqual((self.folder / FILE).read_text(), "two = 2\nthree = two + 1\n")
            self.assertEqual((self.folder / "test/cards/other.py").read_text(), "one = 1\n")
            self.assertEqual((self.folder / "README").read_text(), "text\n")
        self.assertEqual((self.checkout / FILE).read_text(), "two = 3\nthree = two\n")

    def test_a_file_that_lacks_the_wrong_text_is_another_checkout(self):
        with self.assertRaisesRegex(emulator_corrections.OtherCheckout, "two = 4"):
            emulator_corrections.corrected(self.checkout, self.folder, [Correction(FILE, "two = 4", "two = 2")])

    def test_a_missing_file_is_another_checkout(self):
        with self.assertRaises(emulator_corrections.OtherCheckout):
            emulator_corrections.corrected(self.checkout, self.folder, [Correction("no/file.py", "x", "y")])


if __name__ == "__main__":
    unittest.main()
