"""The programs of examples/ run, and do what they say."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import gabbro as gb

FOLDER = Path(__file__).resolve().parents[2] / "examples"


def example(name):
    gb.set_device("cpu")
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_digits_are_learned():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    assert example("digits").train(epochs=12) >= 0.98


def test_a_language_model_learns_a_text():
    text = "the quick brown fox jumps over the lazy dog. " * 20
    loss, written = example("char_lm").train(text, steps=12, length=5)
    assert loss < 2.9  # it begins with log(28) = 3.3
    assert len(written) == 13 and set(written) <= set(text)


def test_tensors_are_handed_over(capsys):
    example("dlpack").main()
    assert "seen by NumPy: [1. 1.]" in capsys.readouterr().out


def test_an_op_of_ones_own_has_its_gradient():
    assert example("custom_op").largest_error() < np.float32(1e-2)


def test_a_pipeline_of_pictures_is_trained(tmp_path, monkeypatch):
    folder = FOLDER / "emoji"
    monkeypatch.syspath_prepend(str(folder))
    gb.set_device("cpu")
    import networks
    import text_encoder
    import tokenizer
    import train

    # Small networks: the file formats and the loops stay the same.
    monkeypatch.setitem(networks.UNET, "channels", (8, 16))
    monkeypatch.setitem(networks.UNET, "heads", (1, 2))
    monkeypatch.setitem(networks.UNET, "groups", 4)
    monkeypatch.setitem(networks.VAE, "channels", (4, 4, 8, 8))
    monkeypatch.setitem(networks.VAE, "groups", 2)
    monkeypatch.setitem(text_encoder.TEXT, "num_hidden_layers", 1)
    texts = [{"emoji": "", "name": name, "keywords": ["sign"]} for name in ("red circle", "blue square", "flag: none")]
    vocabulary, merges = tokenizer.train(tokenizer.captions_for_vocabulary(texts))
    pictures = np.random.default_rng(0).integers(0, 255, (3, 32, 32, 4), np.uint8)
    data = json.dumps({"texts": texts, "vocabulary": vocabulary, "merges": merges})
    np.savez(tmp_path / "pictures.npz", pictures=pictures, data=data)
    common = [str(tmp_path / "pictures.npz"), "-o", str(tmp_path / "out"), "--dtype", "f32", "--minutes", "5"]
    common += ["--vae-batch", "2", "--batch", "2", "--vae-steps", "2", "--steps", "2"]
    checkpoint = str(tmp_path / "checkpoint.safetensors")
    for more in (["--checkpoint", checkpoint], ["--resume", checkpoint, "--weights", "f32"]):
        train.main([*common, *more])
        pipe = gb.image.Pipeline.from_pretrained(tmp_path / "out", device="cpu")
        images = pipe("red circle on blue", num_inference_steps=2, seed=1, output_type="np", width=32, height=32).images
        assert images.shape == (1, 32, 32, 3) and images.std() > 0
    trained = gb.load_state(checkpoint)
    assert trained["steps"].tolist() == [2, 2, 1]
    # Latents have deviation 1.
    latents = train.Run(train.parsed([*common, "--resume", checkpoint])).encode(pictures, np.ones((1, 3), np.float32))
    assert np.allclose(latents.std((0, 2, 3)), 1, atol=0.2)


def test_words_become_the_tokens_of_a_vocabulary(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER / "emoji"))
    import tokenizer

    vocabulary, merges = tokenizer.train(["red heart", "red car", "red cat"])
    tokens = tokenizer.Tokenizer(vocabulary, merges, 8)
    names = {number: token for token, number in vocabulary.items()}
    found = [names[token] for token in tokens("A Red é car")]
    assert found[:3] == ["<|startoftext|>", "a</w>", "red</w>"]
    assert found[3:] == ["Ã", "©</w>", "car</w>", "<|endoftext|>", "<|endoftext|>"]
    assert len(tokens("red " * 20)) == 8


def test_digits_are_learned_by_a_transformer():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    assert example("digits_vit").train(epochs=6) >= 0.7


def llama(folder, rng):
    """A folder with the smallest model of Llama's kind."""
    width, hidden, heads, kv_heads, layers = 16, 24, 4, 2, 2
    config = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "num_hidden_layers": layers,
              "rms_norm_eps": 1e-5}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens.weight": (256, width), "model.norm.weight": None}
    for layer in range(layers):
        name = f"model.layers.{layer}."
        shapes |= {f"{name}self_attn.{part}_proj.weight": (rows, width)
                   for part, rows in (("q", width), ("k", width // 2), ("v", width // 2), ("o", width))}  # fmt: skip
        shapes |= {f"{name}mlp.{part}_proj.weight": (hidden, width) for part in ("gate", "up")}
        shapes |= {f"{name}mlp.down_proj.weight": (width, hidden), f"{name}input_layernorm.weight": None,
                   f"{name}post_attention_layernorm.weight": None}  # fmt: skip
    weights = {
        name: np.ones(width, "f4") if shape is None else rng.normal(0, shape[1] ** -0.5, shape).astype("f4")
        for name, shape in shapes.items()
    }
    gb.save_state(folder / "model.safetensors", {name: gb.tensor(value) for name, value in weights.items()})
    return weights


def test_adapters_of_low_rank_are_trained(tmp_path, rng):
    weights = llama(tmp_path, rng)
    model, losses = example("lora").tune(tmp_path, b"the quick brown fox jumps over the lazy dog. " * 20, steps=30)
    assert np.mean(losses[-3:]) < 0.85 * losses[0]
    assert {name.rsplit(".", 1)[1] for name, _ in model.named_parameters()} == {"a", "b"}
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}
    frozen = model.blocks[1].q.weight.numpy()
    np.testing.assert_array_equal(frozen, weights["model.layers.1.self_attn.q_proj.weight"])
