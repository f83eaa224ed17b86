"""generation_config.json of a folder: what is followed, what is said to be left out, in runs and in conversions."""
import shutil

import support
import tiny_folder
from support import TestCase

IGNORED = {"suppress_tokens": [3], "bad_words_ids": [[4]], "stop_strings": ["a"], "no_repeat_ngram_size": 2,
           "guidance_scale": 1.5, "num_beams": 4}
OFF = {"suppress_tokens": [], "min_length": 0, "num_beams": 1, "guidance_scale": None, "penalty_alpha": 0.0}


class GenerationConfig(TestCase):
    def model(self, generation):
        tiny_folder.write_llama(self.folder / "model", generation=generation)
        return self.folder / "model"

    def said(self, folder):
        """The lines about the file that `run` and `convert` print, which are the same but for what GGUF lacks."""
        for command in (["run", folder, "--raw", "-n", "1", "a"], ["convert", folder, "--force", "-o", self.folder / "x.gguf"]):
            err = self.succeeds(*command).err.decode()
            yield [line.split("generation_config.json: ")[1] for line in err.splitlines() if "generation_config.json" in line]

    def test_fields_that_are_not_followed_are_said(self):
        for lines in self.said(self.model(IGNORED)):
            self.assertEqual(len(lines), 1, lines)
            self.assertEqual(set(lines[0].removeprefix("fields that are not followed: ").split(", ")), set(IGNORED))
        for lines in self.said(self.model(OFF)):
            self.assertEqual(lines, [])

    def test_numbers_that_are_too_large_are_said_once(self):
        for lines in self.said(self.model({"top_k": 2 ** 40})):
            self.assertEqual(lines, ["top_k is integer 1099511627776, not a whole number below 2^31: not used"])

    def test_typical_p(self):
        folder = self.model({"typical_p": 0.2, "temperature": 1.5})
        plain = shutil.copytree(folder, self.folder / "plain")
        (plain / "generation_config.json").unlink()
        options = ["--raw", "-n", "12", "--seed", "3", "abc"]
        given = self.succeeds("run", plain, "--typical-p", "0.2", "--temperature", "1.5", *options).out
        self.assertEqual(self.succeeds("run", folder, *options).out, given)
        self.assertNotEqual(self.succeeds("run", plain, "--temperature", "1.5", *options).out, given)
        of_run, of_convert = self.said(folder)
        self.assertEqual((of_run, of_convert), ([], ["GGUF has no place for typical_p: not part of the new file"]))


if __name__ == "__main__":
    support.main()
