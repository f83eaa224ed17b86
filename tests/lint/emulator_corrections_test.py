#!/usr/bin/env python3
"""tools/emulator_corrections.py corrects a copy, and says so where there is nothing to correct; what it adds to the copy
keeps translated instructions."""
import importlib.util
import pathlib
import shutil
import sys
import tempfile
import types
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
            emulator_corrections.corrected(self.checkout, self.folder, CORRECTIONS, {"test/new.py": pathlib.Path(__file__)})
            self.assertEqual((self.folder / "test/new.py").read_text(), pathlib.Path(__file__).read_text())
            self.assertEqual((self.folder / FILE).read_text(), "two = 2\nthree = two + 1\n")
            self.assertEqual((self.folder / "test/cards/other.py").read_text(), "one = 1\n")
            self.assertEqual((self.folder / "README").read_text(), "text\n")
        self.assertEqual((self.checkout / FILE).read_text(), "two = 3\nthree = two\n")

    def test_a_later_correction_may_be_in_a_folder_that_was_a_link(self):
        emulator_corrections.corrected(self.checkout, self.folder, [Correction("README", "text", "words")], {})
        self.assertTrue((self.folder / "test").is_symlink())
        emulator_corrections.corrected(self.checkout, self.folder, CORRECTIONS, {})
        self.assertEqual((self.folder / FILE).read_text(), "two = 2\nthree = two + 1\n")
        self.assertEqual((self.checkout / FILE).read_text(), "two = 3\nthree = two\n")
        self.assertFalse((self.checkout / "test/cards/other.py").is_symlink())

    def test_a_file_that_lacks_the_wrong_text_is_another_checkout(self):
        with self.assertRaisesRegex(emulator_corrections.OtherCheckout, "two = 4"):
            emulator_corrections.corrected(self.checkout, self.folder, [Correction(FILE, "two = 4", "two = 2")], {})

    def test_a_missing_file_is_another_checkout(self):
        with self.assertRaises(emulator_corrections.OtherCheckout):
            emulator_corrections.corrected(self.checkout, self.folder, [Correction("no/file.py", "x", "y")], {})


class Forms(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.checkout = pathlib.Path(scratch.name)
        self.file = self.checkout / emulator_corrections.TRANSLATIONS
        self.file.parent.mkdir(parents=True)
        (self.checkout / "tinygrad").mkdir()
        shutil.copy(emulator_corrections.ADDED[emulator_corrections.TRANSLATIONS], self.file)

    def forms(self):
        """As a program that starts now has them."""
        spec = importlib.util.spec_from_file_location("translations", self.file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.Forms(lambda elf: types.SimpleNamespace(addr=elf))

    def make(self, forms, code):
        program = types.SimpleNamespace(arg=types.SimpleNamespace(globals=[0, 2]), to_elf=lambda: code)
        return forms.make(("VOP2", 4), 0xff00, 0x1200, lambda: program)

    def expect(self, entry, code):
        self.assertEqual((list(entry[0].arg.globals), entry[1].addr), ([0, 2], code))

    def test_a_form_is_found_by_its_fixed_bits(self):
        forms = self.forms()
        self.expect(self.make(forms, b"add"), b"add")
        self.expect(forms.find(("VOP2", 4), 0x1234), b"add")
        self.assertIsNone(forms.find(("VOP2", 4), 0x1334))
        self.assertIsNone(forms.find(("VOP3", 8), 0x1234))

    def test_other_programs_need_not_translate_it_again(self):
        earlier = self.forms()
        self.make(self.forms(), b"add")
        self.expect(self.forms().find(("VOP2", 4), 0x12ff), b"add")
        self.expect(self.make(earlier, b"not asked for"), b"add")

    def test_a_changed_checkout_starts_afresh(self):
        self.make(self.forms(), b"add")
        (self.checkout / "tinygrad" / "new.py").write_text("")
        self.assertIsNone(self.forms().find(("VOP2", 4), 0x1234))


if __name__ == "__main__":
    unittest.main()
