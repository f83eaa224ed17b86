"""gabbro.AutoModel: scripts for AirLLM, with the import changed."""
from __future__ import annotations

import pathlib

import pytest

import gabbro as gb

TINY = str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "tiny" / "tiny-f16.gguf")


@pytest.fixture(scope="module")
def model():
    return gb.AutoModel.from_pretrained(TINY, device="cpu", max_seq_len=128, compression=None, prefetching=True)


def test_readme_example(model):
    tokens = model.tokenizer(["ab"], return_tensors="pt", return_attention_mask=False, truncation=True, max_length=128,
                             padding=False)
    output = model.generate(tokens["input_ids"].cuda(), max_new_tokens=5, use_cache=True, return_dict_in_generate=True)
    assert len(output.sequences) == 1
    assert len(output.sequences[0]) == len(tokens["input_ids"][0]) + 5
    assert isinstance(model.tokenizer.decode(output.sequences[0]), str)


def test_tokens_are_those_of_the_model(model):
    prompt = model.tokenizer("ab")["input_ids"]
    expected = gb.llm.load(TINY, device="cpu", progress=False).generate([prompt], max_tokens=6, temperature=0)[0]
    assert model.generate([prompt], max_new_tokens=6)[0] == [*prompt, *expected.token_ids]


def test_streamer_gets_the_prompt_and_then_every_token(model):
    class Streamer:
        def __init__(self):
            self.got, self.ended = [], False

        def put(self, ids):
            self.got.append(ids)

        def end(self):
            self.ended = True

    streamer = Streamer()
    model.generate([[5, 6]], max_new_tokens=4, streamer=streamer)
    assert streamer.got[0] == [[5, 6]]
    assert streamer.ended


def test_names_of_devices_mean_what_is_there():
    for name in ("cuda", "cuda:0", "hip", "rocm"):
        assert gb.AutoModel.from_pretrained(TINY, device=name, max_seq_len=64).facts["name"]


def test_errors(model):
    with pytest.raises(ValueError, match="compression"):
        gb.AutoModel.from_pretrained(TINY, device="cpu", compression="2bit")
    with pytest.raises(ValueError, match="gabbro convert"):
        gb.AutoModel.from_pretrained(TINY, device="cpu", compression="4bit")
    with pytest.raises(gb.DeviceError, match="are the least"):
        gb.AutoModel.from_pretrained(TINY, device="cpu", memory=1 << 20)
    with pytest.raises(TypeError, match="num_beams"):
        model.generate([[1]], num_beams=4)
