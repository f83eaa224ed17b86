"""`run` with a T5: the encoder reads the prompt, and the answer is transformers' greedy one (tests/data/encoders)."""
import json
import shutil
import struct

import support
from support import ROOT, TestCase

FOLDER = ROOT / "tests" / "data" / "encoders" / "t5_gated"
VOCABULARY = 96
END = 1


def tensor(name):
    """The i32 values of a tensor of the fixture's expected.safetensors."""
    raw = (FOLDER / "expected.safetensors").read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    begin, end = json.loads(raw[8:8 + size])[name]["data_offsets"]
    return list(struct.unpack(f"<{(end - begin) // 4}i", raw[8 + size + begin:8 + size + end]))


def letter(token):
    return chr(0x4E00 + token)


class TextToText(TestCase):
    """The tokenizer has a letter for each token, so that texts say which tokens they are."""

    def setUp(self):
        super().setUp()
        self.model = self.folder / "t5"
        shutil.copytree(FOLDER, self.model)
        special = ["<pad>", "</s>", "<unk>"]
        pieces = [[special[i] if i < 3 else letter(i), 0.0 if i < 3 else -1.0] for i in range(VOCABULARY)]
        tokenizer = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": None,
                     "added_tokens": [{"id": i, "content": special[i], "single_word": False, "lstrip": False,
                                       "rstrip": False, "normalized": False, "special": True} for i in range(3)],
                     "post_processor": None, "decoder": {"type": "Fuse"},
                     "model": {"type": "Unigram", "unk_id": 2, "vocab": pieces, "byte_fallback": False}}
        (self.model / "tokenizer.json").write_text(json.dumps(tokenizer))
        (self.model / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "pad_token": "<pad>",
                                                                      "unk_token": "<unk>"}))
        ids = tensor("ids")[:tensor("lengths")[0]]
        self.prompt = "".join(map(letter, ids))
        answer = tensor("answer")[:12]
        self.answer = answer[:answer.index(END)] if END in answer else answer

    def answer_of(self, model, prompt=None):
        arguments = ("run", model, "-n", "12", "--temp", "0", "--json", prompt or self.prompt)
        return json.loads(self.succeeds(*arguments).text)

    def test_greedy_answers_are_those_of_transformers(self):
        document = self.answer_of(self.model)
        self.assertEqual(document["token_ids"], self.answer)
        self.assertEqual(document["text"], "".join(letter(token) for token in self.answer if token > 2))

    def test_the_converted_file_gives_the_same(self):
        file = self.folder / "t5.gguf"
        self.succeeds("convert", self.model, "-o", file, "--type", "bf16")
        self.assertEqual(self.answer_of(file)["token_ids"], self.answer)

    def test_several_prompts_are_answered_together(self):
        prompts = [self.prompt, self.prompt[::-1], self.prompt[:3]]
        file = self.file("prompts.txt", "\n".join(prompts) + "\n")
        lines = self.succeeds("run", self.model, "--prompts", file, "--parallel", "2", "-n", "12", "--temp", "0").text
        answers = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual([answer["token_ids"] for answer in answers],
                         [self.answer_of(self.model, prompt=prompt)["token_ids"] for prompt in prompts])

    def test_options_that_it_does_not_take_are_refused(self):
        self.fails(2, "run", self.model, "--quantize", "q8_0", self.prompt, says="--quantize")


if __name__ == "__main__":
    support.main()
