"""`image`: pictures of tiny pipelines, the text in their files, and what is refused."""
import json
import os
import shutil
import struct
import subprocess

import support
from picture_files import chunks, text_of
from support import ROOT, TestCase

PIPELINES = ROOT / "tests" / "data" / "pictures"
SIZE = ("-W", "24", "-H", "16", "--steps", "3", "--device", "cpu")
SMALL = (*SIZE, "--seed", "5")


class Image(TestCase):
    def draw(self, *arguments, name="out.png", folder=PIPELINES / "sd15", prompt="a red heart"):
        out = self.folder / name
        options = SIZE if "--seed" in arguments else SMALL
        result = self.succeeds("image", folder, prompt, "-o", out, *options, *arguments)
        return out.read_bytes(), result

    def test_a_picture_and_its_text(self):
        png, result = self.draw("-n", "blurry", "--sampler", "dpmpp_2m", "--schedule", "karras", "--clip-skip", "1")
        self.assertEqual(result.out, b"")
        header = dict(chunks(png))["IHDR"]
        self.assertEqual(struct.unpack(">IIBB", header[:10]), (24, 16, 8, 2))
        lines = text_of(png)["parameters"].split(b"\0")[1].decode().split("\n")
        self.assertEqual(lines[:2], ["a red heart", "Negative prompt: blurry"])
        for part in ("Steps: 3", "Sampler: DPM++ 2M", "Schedule type: Karras", "CFG scale: 7.5", "Seed: 5", "Size: 24x16",
                     "Model: sd15", "Clip skip: 2", "RNG: CPU"):
            self.assertIn(part, lines[2])
        bare, _ = self.draw("--no-metadata")
        self.assertEqual(text_of(bare), {})
        marked, _ = self.draw("--no-metadata", "--mark")
        self.assertEqual([kind for kind, _ in chunks(marked) if kind.endswith("Xt")], ["iTXt"])
        self.assertIn(b"trainedAlgorithmicMedia", text_of(marked)["XML:com.adobe.xmp"])
        wide, _ = self.draw(prompt="ein Herz 猫")
        self.assertIn("猫".encode(), text_of(wide)["parameters"])

    def test_inspect_shows_the_text(self):
        self.draw("-n", "blurry")
        out = self.folder / "out.png"
        document = json.loads(self.succeeds("inspect", out, "--json").text)
        self.assertEqual((document["width"], document["height"], document["prompt"]), (24, 16, "a red heart"))
        self.assertEqual(document["settings"]["Seed"], "5")
        lines = self.succeeds("inspect", out).text.splitlines()
        self.assertIn("24 x 16 pixels, RGB", lines[0])
        self.assertIn("negative: blurry", lines)
        self.fails(2, "inspect", self.file("cut.png", out.read_bytes()[:60]), says="cut.png")

    def test_a_seed_gives_one_picture(self):
        first, _ = self.draw()
        self.assertEqual(self.draw()[0], first)
        self.assertNotEqual(self.draw("--seed", "6")[0], first)
        self.assertNotEqual(self.draw("--rng", "nv")[0], first)

    def test_several_pictures_have_the_next_seeds(self):
        out = self.folder / "many.png"
        document = json.loads(self.succeeds("image", PIPELINES / "sd15", "a", "-o", out, *SMALL, "--count", "3", "--json").text)
        self.assertEqual([p["seed"] for p in document["pictures"]], [5, 6, 7])
        single, _ = self.draw("--seed", "7", prompt="a")
        pixels = lambda png: dict(chunks(png))["IDAT"]
        self.assertEqual(pixels((self.folder / "many-3.png").read_bytes()), pixels(single))
        self.assertFalse(out.exists())

    def test_standard_output(self):
        result = self.succeeds("image", PIPELINES / "sd15", "a", "-o", "-", *SMALL)
        self.assertEqual(dict(chunks(result.out))["IEND"], b"")
        self.fails(2, "image", PIPELINES / "sd15", "a", "-o", "-", *SMALL, "--json", says="--out -")

    def test_all_samplers_and_forms_of_prompts(self):
        for sampler in "euler euler_a heun dpmpp_2m dpmpp_2m_sde dpmpp_sde unipc ddim pndm lcm lms ddpm tcd".split():
            self.draw("--sampler", sampler)
        for weights in ("a1111", "comfyui", "none"):
            self.draw("--weights", weights, prompt="a (red:1.3) heart")
        _, result = self.draw("--weights", "none", prompt="7 " * 90)
        self.assertIn("note: the prompt has more than 75 tokens", result.err.decode())
        self.draw("--guidance", "1", folder=PIPELINES / "sd21")
        self.draw("--clip-skip", "1", folder=PIPELINES / "sdxl")

    def test_other_formats(self):
        quantized, back = self.folder / "q8", self.folder / "back"
        document = json.loads(self.succeeds("convert", PIPELINES / "sd21", "--type", "q8_0", "-o", quantized, "--json").text)
        self.assertEqual((document["type"], document["path"]), ("q8_0", str(quantized)))
        self.assertIn("tensors", self.succeeds("convert", quantized, "--type", "bf16", "-o", back).text)
        for folder in (quantized, back):
            self.draw(folder=folder)
        refused = [(("-o", back), "is there already"), (("-o", self.folder / "x", "--force"), "--force"),
                   (("-o", self.folder / "x", "--imatrix", self.file("m", "x")), "--imatrix"),
                   (("-o", self.folder / "x", "--lora", "a"), "--lora"), (("--type", "int8_f32"), "int8_f32"),
                   (("-o", self.folder / "none" / "x" / "y"), "none"), (("--type", "other"), "'other'")]
        for arguments, says in refused:
            with self.subTest(arguments=arguments):
                self.fails(2, "convert", PIPELINES / "sd15", *arguments, says=says)
        self.assertFalse((self.folder / "x").exists())

    def test_a_pipeline_by_its_name(self):
        program = self.folder / "bin" / "gabbro"
        program.parent.mkdir()
        shutil.copy(support.PROGRAM, program)
        folder = self.folder / "share" / "gabbro" / "models" / "tiny-1"
        shutil.copytree(PIPELINES / "sd15", folder)
        plugins = {"GABBRO_PLUGIN_PATH": str(support.BUILD / "lib")}
        out = self.folder / "out.png"
        for name, code in (("tiny-1", 0), ("tiny-2", 2), ("Tiny-1", 2), ("../models/tiny-1", 2)):
            done = subprocess.run([program, "image", name, "a", "-o", out, *SMALL], capture_output=True,
                                  env={**os.environ, **plugins}, cwd=self.folder)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(out.exists(), code == 0)
            out.unlink(missing_ok=True)

    def test_refused_arguments(self):
        out, model = self.folder / "none.png", PIPELINES / "sd15"
        draw = ("image", model, "a", "-o", out, "--device", "cpu")
        refused = [
            (("--width", "25"), ("--width 25", "nearest is 26")), (("--height", "0"), "0"), (("--width", "-8"), "-8"),
            (("--steps", "0"), "0"), (("--steps", "1001"), "1001"), (("--steps", "x"), "x"),
            (("--sampler", "none"), ("'none'", "euler")), (("--schedule", "none"), ("'none'", "karras")),
            (("--schedule", "karras"), "pndm"), (("--sampler", "lcm", "--steps", "51"), "50"),
            (("--guidance", "-1"), "-1"), (("--guidance", "inf"), "inf"), (("--guidance-rescale", "2"), "2"),
            (("--eta", "2"), "2"), (("--clip-skip", "9"), "3 layers"), (("--rng", "cuda"), "cuda"),
            (("--weights", "other"), "other"), (("--count", "0"), "0"), (("--seed", "-1"), "-1"),
            (("--embedding", self.folder / "none.safetensors"), "none.safetensors"),
            (("--embedding", self.file("a.pt", "x")), "pickle"),
            (("--embedding", self.file("b.safetensors", "x")), "b.safetensors"),
            (("--embedding", "=x"), "=x"), (("--unknown",), "--unknown")]
        for arguments, says in refused:
            with self.subTest(arguments=arguments):
                self.fails(2, *draw, *arguments, says=says)
        self.fails(2, "image", model, "a", says="-o")
        self.fails(2, "image", model, "a", "-o", self.folder / "missing" / "a.png", says="there is no folder")
        self.fails(2, "image", model, "a", "-o", self.folder, says="is a folder")
        if os.geteuid() != 0:
            (self.folder / "locked").mkdir(mode=0o500)
            self.fails(2, "image", model, "a", "-o", self.folder / "locked" / "a.png", says="cannot be written")
        self.fails(2, "image", model, "-o", out, says="PROMPT")
        self.fails(2, "image", self.folder / "missing", "a", "-o", out, says="missing")
        self.fails(2, "image", self.folder, "a", "-o", out, says="model_index.json")
        self.assertFalse(out.exists())

    def test_refused_files(self):
        def refused(says, change):
            folder = self.folder / "pipeline"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(PIPELINES / "sd15", folder)
            change(folder)
            out = self.folder / "none.png"
            self.fails(2, "image", folder, "a", "-o", out, *SMALL, says=says)
            self.assertFalse(out.exists())

        def change(file, **fields):
            def apply(folder):
                path = folder / file
                document = json.loads(path.read_text())
                document.update(fields)
                path.write_text(json.dumps(document))
            return apply

        def cut(file, size):
            return lambda folder: (folder / file).write_bytes((folder / file).read_bytes()[:size])

        refused("model_index.json", lambda f: (f / "model_index.json").write_text("{"))
        for name in ("FluxPipeline", "StableDiffusionXLControlNetPipeline", "StableDiffusion3Pipeline", "ZImagePipeline"):
            refused(name, change("model_index.json", _class_name=name))
        refused("unet", change("model_index.json", unet=["diffusers", "Transformer2DModel"]))
        refused("text_encoder", change("model_index.json", text_encoder=None))
        unet = "unet/config.json"
        refused("block_out_channels", change(unet, block_out_channels=[]))
        refused("block_out_channels", change(unet, block_out_channels=[3, 8]))
        refused("block_out_channels", change(unet, block_out_channels=[4, 1e9]))
        refused("conv_in.weight", change(unet, block_out_channels=[8, 8]))
        refused("layers_per_block", change(unet, layers_per_block=0))
        refused("layers_per_block", change(unet, layers_per_block=[1]))
        refused("heads", change(unet, attention_head_dim=3))
        refused("cross_attention_dim", change(unet, cross_attention_dim=[8, 16]))
        refused("16", change(unet, cross_attention_dim=16))
        for field, value in (("act_fn", "gelu"), ("class_embed_type", "timestep"), ("addition_embed_type", "text"),
                             ("mid_block_type", "UNetMidBlock2D"), ("resnet_time_scale_shift", "scale_shift"),
                             ("dual_cross_attention", True), ("encoder_hid_dim", 4), ("conv_in_kernel", 5)):
            refused(field, change(unet, **{field: value}))
        vae = "vae/config.json"
        refused("scaling_factor", change(vae, scaling_factor=-1))
        refused("latents_mean", change(vae, latents_mean=[0.5]))
        refused("down_block_types", change(vae, down_block_types=["DownEncoderBlock2D"]))
        refused("latent", change(vae, latent_channels=16))
        scheduler = "scheduler/scheduler_config.json"
        refused("Other", change(scheduler, _class_name="Other"))
        refused("beta_start", change(scheduler, beta_start="x"))
        refused("prediction_type", change(scheduler, prediction_type="flow"))
        refused("KDPM2DiscreteScheduler", change(scheduler, _class_name="KDPM2DiscreteScheduler"))
        refused("variance_type", change(scheduler, _class_name="DDPMScheduler", variance_type="learned"))
        refused("unet/diffusion_pytorch_model.safetensors", cut("unet/diffusion_pytorch_model.safetensors", 1000))
        refused("vae/diffusion_pytorch_model.safetensors", cut("vae/diffusion_pytorch_model.safetensors", 5))
        refused("text_encoder", cut("text_encoder/model.safetensors", 0))
        refused("vocab.json", cut("tokenizer/vocab.json", 20))


if __name__ == "__main__":
    support.main()
