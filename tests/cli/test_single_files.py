"""`image`, `inspect --explain` and `convert` of single files, and what is refused of them."""
import json
import struct

import support
from support import ROOT, TestCase

PICTURES = ROOT / "tests" / "data" / "pictures"
SMALL = ("-W", "24", "-H", "16", "--steps", "2", "--seed", "5", "--device", "cpu")
STEMS = {"unet": "diffusion_pytorch_model", "vae": "diffusion_pytorch_model"}


def read_safetensors(path):
    """Name -> (dtype, shape, bytes)."""
    data = path.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (row["dtype"], row["shape"], data[8 + size + row["data_offsets"][0]:8 + size + row["data_offsets"][1]])
            for name, row in header.items()}


def write_safetensors(path, tensors, metadata=None):
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def transposed(shape, data):
    rows, columns = shape
    values = [data[4 * i:4 * i + 4] for i in range(rows * columns)]
    return b"".join(values[r * columns + c] for c in range(columns) for r in range(rows))


def single_file(name):
    """The tensors of a single file, by the table that diffusers has confirmed, and its metadata."""
    parts, tensors = {}, {}
    for line in (PICTURES / "single_files" / f"{name}.txt").read_text().splitlines():
        original, part, action, sources = line.split(" ")
        if part not in parts:
            parts[part] = read_safetensors(PICTURES / name / part / f"{STEMS.get(part, 'model')}.safetensors")
        found = [parts[part][source] for source in sources.split(",")]
        dtype, shape, data = found[0]
        if action == "join":
            shape, data = [3 * shape[0], *shape[1:]], b"".join(row[2] for row in found)
        elif action == "convolution":
            shape = [*shape, 1, 1]
        elif action == "transpose":
            shape, data = shape[::-1], transposed(shape, data)
        tensors[original] = (dtype, shape, data)
    read = lambda *names: json.loads((PICTURES / name / "/".join(names)).read_text())
    stored = {"unet": read("unet", "config.json"), "vae": read("vae", "config.json"),
              "scheduler": read("scheduler", "scheduler_config.json"), "padding": []}
    for ending in ("", "_2") if name == "sdxl" else ("",):
        stored[f"text_encoder{ending}"] = read(f"text_encoder{ending}", "config.json")
        stored["padding"].append(read(f"tokenizer{ending}", "tokenizer_config.json")["pad_token"])
    return tensors, {"gabbro.pipeline": json.dumps(stored)}


class SingleFileFolder(TestCase):
    """A folder of written models, and pictures of them."""

    def write(self, name, file="model.safetensors", change=None, stores=True):
        tensors, metadata = single_file(name)
        if change:
            tensors = change(tensors) or tensors
        write_safetensors(self.folder / file, tensors, metadata if stores else None)
        return self.folder / file

    def tokenizers(self, name):
        names = ("tokenizer", "tokenizer_2") if name == "sdxl" else ("tokenizer",)
        return [word for part in names for word in ("--tokenizer", PICTURES / name / part)]

    def draw(self, model, *arguments):
        out = self.folder / "out.png"
        out.unlink(missing_ok=True)
        self.succeeds("image", model, "a red heart", "-o", out, *SMALL, "--no-metadata", *arguments)
        return out.read_bytes()


class SingleFiles(SingleFileFolder):
    def test_the_same_picture_as_the_folder(self):
        for name in ("sd15", "sd21", "sdxl"):
            with self.subTest(name=name):
                model = self.write(name)
                self.assertEqual(self.draw(model, *self.tokenizers(name)), self.draw(PICTURES / name))

    def test_parts_of_other_files(self):
        bare = self.write("sd15", "bare.safetensors", lambda t: {k: v for k, v in t.items() if k.startswith("model.")})
        folder = PICTURES / "sd15"
        parts = ("--vae", folder / "vae", "--text-encoder", folder / "text_encoder", *self.tokenizers("sd15"))
        self.assertEqual(self.draw(bare, *parts), self.draw(folder))

    def test_explain(self):
        for name, family in (("sd15", "Stable Diffusion 1"), ("sd21", "Stable Diffusion 2"), ("sdxl", "SDXL")):
            model = self.write(name)
            lines = self.succeeds("inspect", model, "--explain").text.splitlines()
            self.assertEqual(lines[0], f"{model}: {family}")
            self.assertTrue(any("input_blocks.0.0.weight [" in line for line in lines), lines)
            self.assertIn("not in the file: tokenizer", lines[-1])
            document = json.loads(self.succeeds("inspect", model, "--explain", "--json").text)
            self.assertEqual((document["family"], len(document["missing"])), (family, 1))
        self.fails(2, "inspect", self.write("sd15", "a.safetensors", lambda t: {"x": ("F32", [1], b"0000")}), "--explain",
                   says="no input_blocks.0.0.weight")
        self.fails(2, "inspect", self.folder / "none.safetensors", "--explain", says="none.safetensors")

    def test_convert(self):
        """f16 weights as folder, single file and GGUF, and back, give the same file of a picture."""
        for name in ("sd15", "sdxl"):
            with self.subTest(name=name):
                folder, tokenizers = self.folder / name, self.tokenizers(name)
                single, gguf = self.folder / f"{name}.safetensors", self.folder / f"{name}.gguf"
                self.succeeds("convert", PICTURES / name, "-o", folder)
                self.succeeds("convert", folder, "-o", single)
                document = json.loads(self.succeeds("convert", single, "-o", gguf, "--json").text)
                self.assertEqual((document["path"], document["type"]), (str(gguf), "f16"))
                expected = self.draw(folder)
                self.assertEqual(self.draw(single, *tokenizers), expected)
                self.assertEqual(self.draw(gguf, *tokenizers), expected)
                self.succeeds("convert", gguf, "-o", self.folder / f"{name}-again", *tokenizers)
                self.assertEqual(self.draw(self.folder / f"{name}-again"), expected)
                tensors = read_safetensors(single)
                self.assertEqual(set(tensors), set(single_file(name)[0]))
                self.assertEqual({row[0] for row in tensors.values()}, {"F16"})
        self.succeeds("convert", self.folder / "sd15", "--type", "q8_0", "-o", self.folder / "small.gguf")
        self.draw(self.folder / "small.gguf", *self.tokenizers("sd15"))

    def test_fit_and_inspect(self):
        model = self.write("sdxl")
        for path in (model, PICTURES / "sdxl"):
            fit = json.loads(self.succeeds("fit", path, "-W", "64", "-H", "32", "--device", "cpu", "--json").text)
            self.assertEqual((fit["width"], fit["height"], fit["fits"]), (64, 32, True))
            self.assertEqual([part["part"] for part in fit["parts"]],
                             ["text encoder", "text encoder 2", "U-Net", "autoencoder"])
            self.assertEqual(fit["total_bytes"], sum(part["weight_bytes"] for part in fit["parts"]) +
                             max(part["work_bytes"] for part in fit["parts"]))
            text = self.succeeds("fit", path, "--device", "cpu").text
            self.assertIn("128 x 128 pixels", text)
            self.assertIn("U-Net", text)
        small, large = (json.loads(self.succeeds("fit", model, "-W", side, "-H", side, "--device", "cpu", "--json").text)
                        for side in ("64", "256"))
        self.assertGreater(large["work_bytes"], 4 * small["work_bytes"])
        self.assertEqual(large["weight_bytes"], small["weight_bytes"])
        inspected = json.loads(self.succeeds("inspect", PICTURES / "sdxl", "--json").text)
        self.assertEqual((inspected["class"], inspected["scheduler"]), ("StableDiffusionXLPipeline", "EulerDiscreteScheduler"))
        parts = {part["part"]: part["parameters"] for part in inspected["parts"]}
        self.assertEqual(parts, {part["part"]: part["parameters"] for part in fit["parts"]})
        text = self.succeeds("inspect", PICTURES / "sdxl").text
        self.assertIn("autoencoder", text)
        self.assertIn("U-Net", self.succeeds("inspect", model, "--explain").text)

    def test_bad_arguments_of_pipelines(self):
        """Each is one line that names the option or the file, and nothing is written."""
        model, folder, out = self.write("sd15"), PICTURES / "sd15", self.folder / "out"
        bare = self.write("sd15", "bare.safetensors", lambda t: {k: v for k, v in t.items() if k.startswith("model.")})
        flux = self.write("sd15", "flux.safetensors",
                          lambda t: {"double_blocks.0.img_attn.norm.key_norm.scale": ("F32", [1], b"0000")})
        pickle, taken = self.file("old.ckpt", b"x"), self.file("taken.gguf", b"x")
        disguised = self.file("disguised.safetensors", b"\x80\x02}q\x01.")
        tokenizer = ("--tokenizer", folder / "tokenizer")
        cases = [
            (("convert", model, "-o", out), ("holds no tokenizer", "--tokenizer")),
            (("convert", bare, "-o", out, *tokenizer), ("no autoencoder (VAE) and no text encoder", "--vae")),
            (("convert", bare, "-o", self.folder / "a.gguf"), "no autoencoder"),
            (("convert", flux, "-o", out), "FLUX.1"), (("convert", pickle, "-o", out), "a pickle"),
            (("convert", disguised, "-o", out), "pickle"),
            (("convert", folder, "-o", self.folder / "a.safetensors", "--type", "q4_0"), "f32, f16 or bf16, not q4_0"),
            (("convert", folder, "-o", self.folder / "a.gguf", "--type", "q9"), "--type"),
            (("convert", folder, "-o", taken), "is there already"),
            (("convert", folder, "-o", self.folder / "none" / "a.gguf"), "none"),
            (("convert", folder, "-o", out, "--force"), "--force is not for pipelines"),
            (("convert", folder, "-o", out, "--lora", model), "--lora is not for pipelines"),
            (("convert", model, "-o", out, "--tokenizer", self.folder), "vocab.json"),
            (("convert", model, "-o", out, *tokenizer, *tokenizer), "1 text encoder"),
            (("convert", model, "-o", out, *tokenizer, "--vae", folder / "text_encoder" / "model.safetensors"),
             "no autoencoder"),
            (("convert", model, "-o", out, *tokenizer, "--text-encoder", bare), "no text encoder"),
            (("fit", model, "-W", "33"), "--width 33"), (("fit", folder, "-H", "31"), "--height 31"),
            (("fit", model, "-W", "0"), "-W: 0"), (("fit", bare), ("no autoencoder", "--vae")),
            (("fit", flux), "FLUX.1"), (("fit", pickle), "a pickle"), (("fit", model, "--ctx", "512"), "--ctx"),
            (("fit", model, "--kv-type", "q8_0"), "--kv-type"), (("fit", model, "--memory", "1GiB"), "--memory"),
            (("fit", "--arch", "llama", "--params", "8B", "-W", "64"), "--width is for pipelines"),
            (("fit", "--arch", "llama", "--params", "8B", "--vae", model), "--vae is for pipelines"),
            (("inspect", flux, "--explain"), "FLUX.1"), (("inspect", pickle, "--explain"), "a pickle"),
            (("inspect", folder, "--tensors"), "a pipeline's folder"),
            (("inspect", folder, "--explain"), "a pipeline's folder"),
        ]
        there = {path.name for path in self.folder.iterdir()}
        for arguments, says in cases:
            with self.subTest(says=says):
                self.fails(2, *arguments, says=says)
                self.assertEqual({path.name for path in self.folder.iterdir()}, there)

    def test_bad_files(self):
        """Each is one line that names the file or the tensor, and no picture is begun."""
        one = ("F32", [1], b"\0\0\0\0")
        unet, vae, text = "model.diffusion_model.", "first_stage_model.", "cond_stage_model.transformer.text_model."

        def add(*names):
            return lambda t: {**t, **{name: one for name in names}}

        def without(part):
            return lambda t: {k: v for k, v in t.items() if part not in k}

        def shaped(name, shape):
            size = 4
            for length in shape:
                size *= length
            return lambda t: {**t, name: ("F32", shape, b"\0" * size)}

        changes = [
            (add("lora_unet_x.lora_down.weight"), "a LoRA"), (add("control_model.x"), "a ControlNet"),
            (add("ip_adapter.1.to_k_ip.weight"), "an IP-Adapter"), (add("adapter.body.0.x"), "a T2I-Adapter"),
            (add("model.diffusion_model.joint_blocks.0.x"), "Stable Diffusion 3"),
            (add("double_blocks.0.img_attn.norm.key_norm.scale"), "FLUX.1"),
            (add("single_stream_modulation.lin.weight"), "FLUX.2"), (add("llm_adapter.x"), "Anima"),
            (add("layers.0.adaLN_modulation.0.weight"), "Z-Image"), (add("transformer_blocks.0.img_mod.1.weight"), "Qwen-Image"),
            (add("clip_txt_mapper.weight"), "Stable Cascade"), (add("head.modulation"), "Wan"),
            (add("edm_vpred.sigma_max"), "CosXL"), (add("edm_mean"), "Playground"), (add("scaled_fp8"), "FP8"),
            (add("a.comfy_quant"), "ComfyUI"), (add("a.wscales"), "SVDQuant"), (add(unet + "label_emb.weight"), "upscaler"),
            (add(unet + "other.weight"), "other.weight"), (without(unet), "no U-Net"), (without(vae), "no autoencoder"),
            (without(text), "no text encoder"), (shaped(unet + "input_blocks.0.0.weight", [4, 9, 3, 3]), "inpainting"),
            (shaped(unet + "input_blocks.0.0.weight", [4, 8, 3, 3]), "InstructPix2Pix"),
            (shaped(unet + "input_blocks.0.0.weight", [4, 4]), "expected 4 axes"),
            (shaped(unet + "input_blocks.0.0.weight", [8, 4, 3, 3]), "conv_in.weight"),
            (shaped(unet + "label_emb.0.0.weight", [16, 2560]), "refiner"), (without("out.2.weight"), "conv_out.weight"),
            (without("decoder.mid.block_1.norm1.weight"), "mid_block.resnets.0.norm1.weight"),
            (without("layers.1.mlp.fc1.weight"), "layers.1.mlp.fc1.weight"),
            (lambda t: {**t, unet + "out.2.bias": ("F32", [4], struct.pack("<4f", 0, float("nan"), 0, 0))}, "conv_out.bias"),
            (lambda t: {**t, unet + "out.2.bias": ("I64", [4], b"\0" * 32)}, "conv_out.bias"),
        ]
        out = self.folder / "none.png"
        for change, says in changes:
            with self.subTest(says=says):
                model = self.write("sd15", change=change)
                self.fails(2, "image", model, "a", "-o", out, *SMALL, *self.tokenizers("sd15"), says=says)
                self.assertFalse(out.exists())
        good = self.write("sd15", "good.safetensors").read_bytes()
        for name, data, says in (("cut.safetensors", good[:2000], "cut.safetensors"), ("empty.safetensors", b"", "empty"),
                                 ("page.safetensors", b"<!doctype html>" + b" " * 50, "web page"),
                                 ("end.safetensors", good[:-8], "end.safetensors"), ("a.ckpt", b"\x80\x02", "a pickle"),
                                 ("a.pt", b"PK\x03\x04", "a pickle"), ("a.bin", b"x", "a pickle"),
                                 ("a.gguf", b"GGUF" + b"\0" * 9, "a.gguf"), ("b.gguf", good, "b.gguf")):
            with self.subTest(name=name):
                self.fails(2, "image", self.file(name, data), "a", "-o", out, *SMALL, *self.tokenizers("sd15"), says=says)
                self.assertFalse(out.exists())
        model, draw = self.write("sd15"), lambda *more: ("image", model, "a", "-o", out, *SMALL, *more)
        self.fails(2, *draw(), says=("holds no tokenizer", "--tokenizer FOLDER"))
        self.fails(2, *draw("--tokenizer", self.folder), says="vocab.json")
        self.fails(2, *draw("--tokenizer", self.folder / "none"), says="none")
        self.fails(2, *draw("--vae", self.folder / "none.safetensors", *self.tokenizers("sd15")), says="none.safetensors")
        self.fails(2, *draw("--vae", PICTURES / "sd15" / "text_encoder" / "model.safetensors", *self.tokenizers("sd15")),
                   says="no autoencoder")
        broken = json.dumps({"unet": 3})
        for stored, says in (("{", "gabbro.pipeline"), ("[]", "gabbro.pipeline"), (broken, "model.safetensors (U-Net)")):
            write_safetensors(model, single_file("sd15")[0], {"gabbro.pipeline": stored})
            self.fails(2, *draw(*self.tokenizers("sd15")), says=says)
        self.assertFalse(out.exists())


if __name__ == "__main__":
    support.main()
