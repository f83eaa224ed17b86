"""gabbro.llm: logits of the fixtures' models against transformers."""

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import gabbro as gb

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
TINY = DATA / "tiny" / "tiny-q8_0.gguf"


def read_safetensors(path):
    """Arrays of a file, without the safetensors package."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    data = raw[8 + length :]
    types = {"F32": np.float32, "I32": np.int32}
    return {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], types[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__"
    }


@pytest.fixture(scope="module")
def model():
    return gb.llm.load(TINY, device="cpu", sequences=3, progress=False)


@pytest.mark.parametrize("family", ["llama", "gemma2", "phi3"])
def test_logits_are_those_of_transformers(family):
    expected = read_safetensors(DATA / "families" / family / "expected.safetensors")
    loaded = gb.llm.load(DATA / "families" / family, device="cpu")
    logits = loaded.logits(expected["ids"].tolist()).numpy()
    assert logits.dtype == np.float32
    assert logits.shape == expected["logits"].shape
    error = np.linalg.norm(logits - expected["logits"], axis=1) / np.linalg.norm(expected["logits"], axis=1)
    assert error.max() < 1e-2  # weights in bf16


def test_greedy_tokens_are_the_largest_logits(model):
    prompt = model.tokenizer.encode("hello there")
    answer = model.generate(prompt, max_tokens=5, temperature=0)
    ids = list(prompt)
    for token in answer.token_ids:
        assert token == int(model.logits(ids).numpy()[-1].argmax())
        ids.append(token)
    assert answer.prompt_tokens == len(prompt)
    assert answer.stop_reason in ("length", "eos")
    assert str(answer) == answer.text


def test_several_prompts_give_what_each_gives_alone(model):
    prompts = ["one", "two words", "and three more words"]
    together = model.generate(prompts, max_tokens=6, temperature=0)
    assert [each.token_ids for each in together] == [
        model.generate(prompt, max_tokens=6, temperature=0).token_ids for prompt in prompts
    ]
    assert model.generate([], max_tokens=1) == []


def test_a_stream_gives_the_same_text(model):
    whole = model.generate("hello", max_tokens=12, temperature=0).text
    assert "".join(model.stream("hello", max_tokens=12, temperature=0)) == whole


def test_a_closed_stream_ends_its_generation(model):
    before = threading.active_count()
    stream = model.stream("hello", max_tokens=200, temperature=1, seed=3)
    next(stream)
    stream.close()
    assert threading.active_count() == before
    assert model.generate("hello", max_tokens=1).token_ids


def test_seeds_repeat(model):
    first = model.generate("hello", max_tokens=8, temperature=1.5, seed=5).token_ids
    excluded = model.generate("hello", max_tokens=8, temperature=1.5, seed=5, xtc_probability=1, xtc_threshold=0)
    assert first != excluded.token_ids
    assert first == model.generate("hello", max_tokens=8, temperature=1.5, seed=5).token_ids
    assert any(first != model.generate("hello", max_tokens=8, temperature=1.5, seed=s).token_ids for s in (6, 7, 8))


def test_tokens_there_and_back(model):
    tokenizer = model.tokenizer
    text = "Hello, wörld! 12"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids, skip_special_tokens=True).strip() == text
    assert tokenizer(text) == {"input_ids": ids}
    assert tokenizer([text, "a"])["input_ids"][0] == ids
    assert len(tokenizer) == tokenizer.vocab_size == model.facts["vocabulary"]
    token = tokenizer.convert_ids_to_tokens(ids[-1])
    assert isinstance(token, str)
    assert tokenizer.convert_tokens_to_ids("no such token at all") is None


@pytest.mark.parametrize("size", [4096, 140000])
def test_a_file_that_is_cut_is_an_error_that_names_it(tmp_path, size):
    path = tmp_path / "cut.gguf"
    path.write_bytes(TINY.with_name("tiny-f16.gguf").read_bytes())
    loaded = gb.llm.load(path, device="cpu", progress=False)  # its weights are read from the file, in place
    loaded.logits([1, 2, 3])
    os.truncate(path, size)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=rf"cut\.gguf: the file had 145024 bytes .* and has {size} now"):
            loaded.logits([1, 2, 3])
    other = gb.llm.load(TINY, device="cpu", progress=False)
    assert other.logits([1, 2, 3]).shape[0] == 3


def test_errors_name_what_is_wrong(model):
    with pytest.raises(ValueError, match=r"nowhere\.gguf"):
        gb.llm.load("nowhere.gguf")
    with pytest.raises(ValueError, match="kv_type is 'f8', expected f32, bf16, f16, q8_0 or q4_0"):
        gb.llm.load(TINY, kv_type="f8")
    with pytest.raises(TypeError, match="unknown option 'max_token'"):
        model.generate("a", max_token=3)
    with pytest.raises(TypeError, match="temperature cannot be 'hot'"):
        model.generate("a", temperature="hot")
    with pytest.raises(ValueError, match=r"top.p"):
        model.generate("a", top_p=-1)
    with pytest.raises(TypeError, match="a prompt is"):
        model.generate([1.5])
    with pytest.raises(ValueError, match="outside the vocabulary"):
        model.logits([10**6])
    with pytest.raises(ValueError, match="message is"):
        model.tokenizer.apply_chat_template([{"text": "a"}])


FAMILIES = DATA / "families"
ADAPTERS = DATA / "adapters"


@pytest.mark.parametrize("kv_type", ["f32", "bf16", "f16", "q8_0", "q4_0"])
def test_types_of_keys_and_values(kv_type):
    model = gb.llm.load(TINY, device="cpu", kv_type=kv_type)
    assert model.facts["kv_type"] == kv_type
    assert model.generate("hello", max_tokens=4, temperature=0).token_ids


def test_blocks_have_to_divide_heads():
    assert gb.llm.load(FAMILIES / "llama", device="cpu").facts["kv_type"] == "f16"
    with pytest.raises(ValueError, match="blocks of 32 elements, which do not divide this model's heads of 8"):
        gb.llm.load(FAMILIES / "llama", device="cpu", kv_type="q4_0")


def test_weights_are_quantized_while_loading():
    model = gb.llm.load(FAMILIES / "qwen3", device="cpu", quantize="q8_0")
    assert model.facts["quantization"] == "q8_0"
    with pytest.raises(ValueError, match="'q9' is not known"):
        gb.llm.load(FAMILIES / "qwen3", device="cpu", quantize="q9")


def test_adapters_are_switched():
    ids = [3, 4, 5]
    path = str(ADAPTERS / "llama")
    model = gb.llm.load(FAMILIES / "llama", device="cpu", adapters=path)
    assert model.adapters == {path: 1.0}
    adapted = model.logits(ids).numpy()
    model.set_adapters({})
    plain = model.logits(ids).numpy()
    np.testing.assert_array_equal(plain, gb.llm.load(FAMILIES / "llama", device="cpu").logits(ids).numpy())
    assert abs(adapted - plain).max() > 0.01
    model.set_adapters({path: 1})
    np.testing.assert_array_equal(model.logits(ids).numpy(), adapted)
    with pytest.raises(ValueError, match="'other' was not loaded"):
        model.set_adapters({"other": 1})


def test_an_error_of_a_callback_ends_the_load():
    def fail(share):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        gb.llm.load(TINY, device="cpu", progress=fail)


class _Duck:
    """As a class of pydantic: it says its schema."""

    @staticmethod
    def model_json_schema():
        properties = {"legs": {"enum": [2, 4]}}
        return {"type": "object", "properties": properties, "required": ["legs"], "additionalProperties": False}


@pytest.mark.parametrize("schema", [_Duck, _Duck.model_json_schema(), json.dumps(_Duck.model_json_schema())])
def test_a_schema_constrains_the_answer(model, schema):
    answer = model.generate("a b", schema=schema, max_tokens=200, temperature=1, seed=3)
    assert json.loads(answer.text) in ({"legs": 2}, {"legs": 4})
    assert answer.stop_reason == "eos"


def test_expressions_grammars_and_choices_constrain_answers(model):
    assert set(model.generate("a", regex="[xy]{4}", temperature=1, seed=1).text) <= set("xy")
    assert model.generate(["a", "b"], grammar='root ::= "ab" "c"?', seed=2)[1].text in ("ab", "abc")
    assert "".join(model.stream("a", choices=["yes", "no"], seed=4)) in ("yes", "no")


@pytest.mark.parametrize("options, message", [
    ({"schema": {"properties": {"a": {"not": {}}}}}, "#/properties/a/not: the keyword is not supported"),
    ({"regex": "a("}, "position 3: missing"),
    ({"grammar": "root ::= x"}, "the rule 'x' is not defined"),
    ({"choices": []}, "the choices are not a list"),
    ({"regex": "a", "schema": {}}, "schema and regex exclude each other"),
])
def test_formats_that_are_refused(model, options, message):
    with pytest.raises(ValueError, match=message.replace("(", "\\(")):
        model.generate("a", **options)
