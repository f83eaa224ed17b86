#!/usr/bin/env python3
"""Writes tests/data/pictures/lora: adapters of tests/data/pictures/sd15 in 16 forms and spellings.

NAME.safetensors is an adapter; expected.safetensors has, for each, NAME.y: what diffusers' U-Net gives for unet.x, unet.t
and unet.context of sd15/expected.safetensors after the difference, computed here by its definition in f64, was added to
its weights; and NAME.states: the states of PROMPT by the text encoder, of adapters that change it.
half.y is lora_kohya at strength 0.5, both.y lora_kohya and lokr together at strengths 0.7 and -0.4.
Needs torch, diffusers 0.39 and transformers. Usage: make_lora_fixtures.py
"""
import diffusers
import torch
import transformers
from make_picture_fixtures import OUT, PROMPT
from safetensors.torch import load_file, save_file

A = "down_blocks.1.attentions.0.transformer_blocks.0."
LINEAR = [A + "attn1.to_q", A + "attn1.to_out.0", A + "attn2.to_k", A + "ff.net.0.proj", "time_embedding.linear_1"]
CONV = ["down_blocks.0.resnets.0.conv1", "up_blocks.1.resnets.1.conv2", "down_blocks.0.downsamplers.0.conv",
        "up_blocks.0.upsamplers.0.conv"]
LDM = {A + "attn1.to_q": "input_blocks_3_1_transformer_blocks_0_attn1_to_q",
       "down_blocks.0.resnets.0.conv1": "input_blocks_1_0_in_layers_2", "up_blocks.1.resnets.1.conv2": "output_blocks_3_0_out_layers_3",
       "down_blocks.0.downsamplers.0.conv": "input_blocks_2_0_op", "up_blocks.0.upsamplers.0.conv": "output_blocks_1_2_conv",
       "mid_block.resnets.1.time_emb_proj": "middle_block_2_emb_layers_1", "up_blocks.1.resnets.0.conv_shortcut":
       "output_blocks_2_0_skip_connection", "conv_in": "input_blocks_0_0", "conv_out": "out_2"}
TEXT = ["encoder.layers.0.self_attn.q_proj", "encoder.layers.1.self_attn.out_proj", "encoder.layers.2.mlp.fc1"]


def kohya(path):
    return "lora_unet_" + path.replace(".", "_")


class Form:
    """An adapter's tensors, and the differences of weights that they stand for."""

    def __init__(self, name, number, weights):
        self.name, self.weights, self.tensors, self.deltas = name, weights, {}, {}
        self.generator = torch.Generator().manual_seed(100 + number)

    def random(self, *shape, scale=1.0):
        return torch.randn(shape, generator=self.generator) * scale

    def put(self, key, tensor):
        self.tensors[key] = tensor.contiguous()
        return tensor.double()

    def add(self, target, delta):
        self.deltas[target] = self.deltas.get(target, 0) + delta.reshape(self.weights[target].shape)

    def shape(self, path):
        return self.weights[path + ".weight"].shape

    def low_rank(self, path, stem, down, up, rank=2, alpha=None, alpha_key=None, dtype=torch.float32):
        rows, columns, *kernel = self.shape(path)
        a = self.put(stem + down, self.random(rank, columns, *kernel, scale=0.5).to(dtype))
        b = self.put(stem + up, self.random(rows, rank, *([1] * len(kernel)), scale=0.5).to(dtype))
        delta = b.flatten(1) @ a.flatten(1)
        if alpha is not None:
            delta = delta * self.put(alpha_key or stem + ".alpha", torch.tensor(alpha)) / rank
        return delta

    def tucker(self, middle, outer, inner):  # outer [p, o], inner [q, i]
        return torch.einsum("p q k l, q i, p o -> o i k l", middle, inner, outer)


def make_forms(weights):
    forms = []

    def form(name):
        forms.append(Form(name, len(forms), weights))
        return forms[-1]

    f = form("lora_kohya")
    for path in LINEAR:
        f.add(path + ".weight", f.low_rank(path, kohya(path), ".lora_down.weight", ".lora_up.weight", alpha=1.0))
    f = form("lora_peft")
    for path in LINEAR:
        f.add(path + ".weight", f.low_rank(path, "base_model.model." + path, ".lora_A.weight", ".lora_B.weight"))
    f = form("lora_diffusers")
    for path in LINEAR[:3]:
        layer = path.removesuffix(".0").rsplit(".", 1)
        stem = f"unet.{layer[0]}.processor.{layer[1]}_lora"
        f.add(path + ".weight", f.low_rank(path, stem, ".down.weight", ".up.weight", rank=3))
    f = form("lora_onetrainer")
    for path in LINEAR:
        f.add(path + ".weight", f.low_rank(path, "lora_transformer_" + path.replace(".", "_"), ".lora_down.weight",
                                           ".lora_up.weight", alpha=4.0, dtype=torch.bfloat16))
    f = form("locon_ldm")
    for path, ldm in LDM.items():
        f.add(path + ".weight", f.low_rank(path, "lora_unet_" + ldm, ".lora_down.weight", ".lora_up.weight", alpha=2.0))
    f = form("locon_mid")
    for path in CONV[:3]:
        rows, columns, *kernel = f.shape(path)
        up, down = f.random(rows, 2, 1, 1), f.random(3, columns, 1, 1)
        middle = f.random(2, 3, *kernel, scale=0.3)
        stem = kohya(path)
        b, a, m = f.put(stem + ".lora_up.weight", up), f.put(stem + ".lora_down.weight", down), f.put(stem + ".lora_mid.weight", middle)
        alpha = f.put(stem + ".alpha", torch.tensor(1.5))
        f.add(path + ".weight", torch.einsum("o p, p q k l, q i -> o i k l", b.flatten(1), m, a.flatten(1)) * alpha / 3)
    f = form("loha")
    for path in LINEAR[:2] + CONV[:1]:
        rows, columns = f.shape(path)[0], f.shape(path)[1:].numel()
        w = {k: f.put(f"{kohya(path)}.hada_{k}", f.random(*s, scale=0.6)) for k, s in
             {"w1_a": (rows, 2), "w1_b": (2, columns), "w2_a": (rows, 2), "w2_b": (2, columns)}.items()}
        alpha = f.put(kohya(path) + ".alpha", torch.tensor(1.0))
        f.add(path + ".weight", (w["w1_a"] @ w["w1_b"]) * (w["w2_a"] @ w["w2_b"]) * alpha / 2)
    f = form("loha_tucker")
    for path in CONV:
        rows, columns, *kernel = f.shape(path)
        w = {k: f.put(f"lycoris_{path.replace('.', '_')}.hada_{k}", f.random(*s, scale=0.6)) for k, s in
             {"w1_a": (2, rows), "w1_b": (2, columns), "w2_a": (2, rows), "w2_b": (2, columns), "t1": (2, 2, *kernel),
              "t2": (2, 2, *kernel)}.items()}
        f.add(path + ".weight", f.tucker(w["t1"], w["w1_a"], w["w1_b"]) * f.tucker(w["t2"], w["w2_a"], w["w2_b"]))
    f = form("lokr")
    for path in LINEAR[:3]:
        rows, columns = f.shape(path)
        w1 = f.put(f"lycoris_{path.replace('.', '_')}.lokr_w1", f.random(2, 4, scale=0.5))
        w2 = f.put(f"lycoris_{path.replace('.', '_')}.lokr_w2", f.random(rows // 2, columns // 4, scale=0.5))
        f.put(f"lycoris_{path.replace('.', '_')}.alpha", torch.tensor(7.0))  # without a rank it does not count
        f.add(path + ".weight", torch.kron(w1, w2))
    f = form("lokr_factors")
    for path in LINEAR[:2]:
        rows, columns = f.shape(path)
        stem = kohya(path)
        w1 = f.put(stem + ".lokr_w1_a", f.random(4, 1)) @ f.put(stem + ".lokr_w1_b", f.random(1, 2))
        w2 = f.put(stem + ".lokr_w2_a", f.random(rows // 4, 2)) @ f.put(stem + ".lokr_w2_b", f.random(2, columns // 2))
        alpha = f.put(stem + ".alpha", torch.tensor(0.5))
        f.add(path + ".weight", torch.kron(w1, w2) * alpha / 2)
    f = form("lokr_tucker")
    for path in CONV[:2]:
        rows, columns, *kernel = f.shape(path)
        stem = kohya(path)
        w1 = f.put(stem + ".lokr_w1", f.random(2, 2, scale=0.5))
        t2, b, a = f.random(2, 2, *kernel, scale=0.5), f.random(2, columns // 2), f.random(2, rows // 2)
        w2 = f.tucker(f.put(stem + ".lokr_t2", t2), f.put(stem + ".lokr_w2_a", a), f.put(stem + ".lokr_w2_b", b))
        alpha = f.put(stem + ".alpha", torch.tensor(1.0))
        f.add(path + ".weight", torch.kron(w1[:, :, None, None].contiguous(), w2.contiguous()) * alpha / 2)
    f = form("dora_rows")
    for path in LINEAR[:3]:
        weight = weights[path + ".weight"].double()
        moved = weight + f.low_rank(path, "diffusion_model." + path, ".lora_A.weight", ".lora_B.weight")
        size = f.put(f"diffusion_model.{path}.lora_magnitude_vector", f.random(weight.shape[0]).abs() + 0.5)
        f.add(path + ".weight", moved * (size / moved.norm(dim=1))[:, None] - weight)
    f = form("dora_columns")
    for path in LINEAR[:1] + CONV[:2]:
        weight = weights[path + ".weight"].double()
        moved = weight + f.low_rank(path, kohya(path), ".lora_down.weight", ".lora_up.weight", alpha=2.0).reshape(weight.shape)
        ones = [1] * (weight.ndim - 2)
        size = f.put(kohya(path) + ".dora_scale", f.random(1, weight.shape[1], *ones).abs() + 0.5)
        length = moved.transpose(0, 1).flatten(1).norm(dim=1).reshape(1, -1, *ones)
        f.add(path + ".weight", moved * size / length - weight)
    f = form("full")
    for path in LINEAR[1:3] + CONV[:2]:
        f.add(path + ".weight", f.put(kohya(path) + ".diff", f.random(*f.shape(path), scale=0.2)))
        if path + ".bias" in weights:
            f.add(path + ".bias", f.put(kohya(path) + ".diff_b", f.random(f.shape(path)[0], scale=0.2)))
    new = f.put(kohya("conv_out") + ".set_weight", f.random(*f.shape("conv_out"), scale=0.2))
    f.add("conv_out.weight", new - weights["conv_out.weight"].double())
    f = form("norms")
    for path in ("down_blocks.0.resnets.0.norm1", A + "norm2", "conv_norm_out"):
        for part, key in (("weight", "w_norm"), ("bias", "b_norm")):
            f.add(f"{path}.{part}", f.put(f"{kohya(path)}.{key}", f.random(*f.shape(path), scale=0.3)))
    f = form("text")
    for path in LINEAR[:1]:
        f.add(path + ".weight", f.low_rank(path, kohya(path), ".lora_down.weight", ".lora_up.weight", alpha=1.0))
    return forms


@torch.no_grad()
def main():
    folder, expected = OUT / "lora", {}
    folder.mkdir(exist_ok=True)
    inputs = load_file(OUT / "sd15" / "expected.safetensors")
    unet = diffusers.UNet2DConditionModel.from_pretrained(OUT / "sd15" / "unet").eval()
    weights = {name: value.clone() for name, value in unet.state_dict().items()}

    def run(*terms):
        moved = dict(weights)
        for form, strength in terms:
            for name, delta in form.deltas.items():
                moved[name] = (moved[name].double() + strength * delta).float()
        unet.load_state_dict(moved)
        return unet(inputs["unet.x"], torch.tensor(981.0), inputs["unet.context"]).sample

    forms = make_forms(weights)
    by_name = {form.name: form for form in forms}
    for form in forms:
        expected[form.name + ".y"] = run((form, 1))
    expected["half.y"] = run((by_name["lora_kohya"], 0.5))
    expected["both.y"] = run((by_name["lora_kohya"], 0.7), (by_name["lokr"], -0.4))
    # The adapter "text" changes the text encoder too.
    text = transformers.CLIPTextModel.from_pretrained(OUT / "sd15" / "text_encoder").eval()
    tokenizer = transformers.CLIPTokenizer.from_pretrained(OUT / "sd15" / "tokenizer")
    model = text.text_model if hasattr(text, "text_model") else text
    form = by_name["text"]
    stems = ["lora_te_text_model_", "text_encoder.text_model.", "lora_te1_text_model_"]
    for path, stem in zip(TEXT, stems):
        layer = model.get_submodule(path)
        form.weights[path + ".weight"] = layer.weight
        name = stem + (path.replace(".", "_") if stem.startswith("lora") else path)
        ends = (".lora_down.weight", ".lora_up.weight") if stem.startswith("lora") else (".lora_A.weight", ".lora_B.weight")
        layer.weight.data = (layer.weight.double() + form.low_rank(path, name, *ends)).float()
    ids = tokenizer(PROMPT, padding="max_length", max_length=77, truncation=True, return_tensors="pt").input_ids
    expected["text.states"] = text(ids).last_hidden_state[0]
    for form in forms:
        save_file(form.tensors, folder / f"{form.name}.safetensors")
    save_file({key: value.contiguous().clone() for key, value in expected.items()}, folder / "expected.safetensors")


if __name__ == "__main__":
    main()
