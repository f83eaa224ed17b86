"""run --prompts --draft gives the tokens of run --prompts, and on a text that suits the drafts more of them per second."""
import json
import unittest

import random_model
import support
from support import SANITIZED, TestCase


@unittest.skipIf(SANITIZED, "compares times")
class DraftSpeed(TestCase):
    ATTEMPTS = 3  # the fastest one counts: other programs may take the machine's time

    def test_drafts_are_faster_on_a_text_that_suits_them(self):
        """The draft model is the model without most of its layers, and both repeat a text."""
        shape = random_model.Shape(layers=12, embedding=1024, heads=8, kv_heads=4, feed_forward=3072, vocabulary=512)
        model, draft = self.folder / "model.gguf", self.folder / "draft.gguf"
        for path, layers in ((model, None), (draft, 1)):
            random_model.write(path, shape, "q8_0", layers=layers, cycle=b"abcdefgh")
        prompts = self.file("prompts.txt", "abc\nefg\n")

        def answers(*arguments):
            return json.loads(self.succeeds("run", model, "--prompts", prompts, "--temperature", "0", "-n", "60", "--raw",
                                            "--json", *arguments).out)
        for parallel in ("1", "2"):
            pairs = [(answers("--parallel", parallel), answers("--parallel", parallel, "--draft", draft))
                     for _ in range(self.ATTEMPTS)]
            for plain, drafted in pairs:
                self.assertEqual([row["token_ids"] for row in drafted["results"]],
                                 [row["token_ids"] for row in plain["results"]])
            plain, drafted = (max(answer["tokens_per_second"] for answer in each) for each in zip(*pairs))
            print(f"{parallel} at once: {plain:.1f} tokens/s, with drafts {drafted:.1f}")
            self.assertGreater(drafted, 1.2 * plain)


if __name__ == "__main__":
    support.main()
