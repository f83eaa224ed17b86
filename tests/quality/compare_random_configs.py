#!/usr/bin/env python3
"""Compares what Gabbro and transformers make of random config.json files of tiny random models.

A config has fields of its class that are there, absent, null, of another value, or of the wrong type, fields of other
classes, and fields by their other names. Both sides have to give the same logits, or an error; a value of the wrong type
that Gabbro alone refuses, naming the field, counts too. Needs torch and transformers; 2,000 configs take ten minutes.

    compare_random_configs.py [--count N] [--seed N] [--family NAME ...] [--kv-type TYPE] [--tolerance X] [--keep DIR]

A line for each config that differs has its number: --only NUMBER runs it alone. Exit code 1 where one differs.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
import zlib

import numpy
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
from make_family_fixtures import COMMON, FAMILIES, HalfCache, randomize  # noqa: E402

TEN = ["llama", "mistral", "qwen2", "qwen3", "gemma2", "qwen2_moe", "mixtral", "olmo3", "cohere2", "gpt_neox"]
TOKENS = 24
MOST_PARAMETERS = 400_000
SIZES = {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
         "num_key_value_heads", "head_dim", "n_embd", "n_layer", "n_head", "n_inner", "d_model", "n_layers", "n_heads"}
# Words about a run, not about the model.
RUN_FIELDS = {"output_hidden_states", "return_dict", "dtype", "transformers_version", "architectures", "id2label",
              "label2id", "problem_type", "is_encoder_decoder", "chunk_size_feed_forward", "output_router_logits",
              "output_attentions", "text_config", "vision_config", "audio_config", "attn_config"}



# Refusals of one side for its limits, which do not count as differences.
LIMITS = [
    "which is not supported",  # of Gabbro: two-way attention of Gemma and the like
    "makes the rotated elements of a head",  # heads of one element, which transformers widens to two
    "'head_dim' is 1,",
    "strides should be multiple of 16 bytes",  # of torch's product of experts
    "only contain LinearAttention layers",  # of transformers' cache
    "unsupported operand type(s) for *: 'NoneType' and 'float'",  # YaRN of classes that leave head_dim null
]


def base_config(family):
    """The config.json of a tiny model, with no more than the fields that the fixture gives."""
    name, fields = FAMILIES[family]
    given = {key: None if value == "null" else value for key, value in {**COMMON, **fields}.items() if value is not None}
    return {"model_type": getattr(transformers, name).model_type, "architectures": ["any"], **given}


def class_fields(cls):
    return {name: value for name, value in cls().to_dict().items()
            if name not in RUN_FIELDS and name != "model_type" and not name.startswith("_")}


def all_fields():
    """Fields of all families with a value that their tiny models or their classes have."""
    found = {}
    for family in FAMILIES:
        base = base_config(family)
        for name, value in {**class_fields(CONFIG_MAPPING[base["model_type"]]), **base}.items():
            if name in ("model_type", "architectures") or name in RUN_FIELDS or name.startswith("_"):
                continue
            found.setdefault(name, [])
            if value is not None and value not in found[name] and len(found[name]) < 4:
                found[name].append(value)
    return {name: values for name, values in found.items() if values}


def other_value(rng, name, value, layers):
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if name == "layer_types":
        return [rng.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]
    if name.endswith("_act") or name.startswith(("hidden_activation", "activation")):
        return rng.choice(["silu", "gelu", "gelu_pytorch_tanh", "relu", "gelu_new", "quick_gelu"])
    if isinstance(value, int):
        return rng.choice([max(1, value // 2), value + 1, value * 2, 1, 4])
    if isinstance(value, float):
        return rng.choice([value * 0.5, value * 2, value + 0.25])
    return value


def wrong_type(rng, value):
    choices = ["text", [1, 2], {"a": 1}, True, 3, 0.5]
    same = [one for one in choices if type(one) is type(value) or (isinstance(value, float) and one == 3)]
    return rng.choice([one for one in choices if one not in same])


def rope_variant(rng, config):
    """One of the forms that rotary embeddings have had."""
    theta = rng.choice([5000.0, 20000.0, 12345, 1e6])
    config.pop("rope_parameters", None)
    kind = rng.randrange(7)
    if kind == 0:
        config["rope_theta"] = theta
    elif kind == 1:
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
    elif kind == 2:
        config["rope_scaling"] = {"type": "linear", "factor": rng.choice([2.0, 4.0])}
        config["rope_theta"] = theta
    elif kind == 3:
        config["rope_scaling"] = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                  "original_max_position_embeddings": 64}
    elif kind == 4:
        config["rope_scaling"] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
    elif kind == 5:
        config["rope_scaling"] = rng.choice([None, {}])
        config["rope_theta"] = theta
    else:
        config["rope_parameters"] = {"rope_theta": theta, "partial_rotary_factor": 0.5}


class Generator:
    def __init__(self):
        self.foreign = all_fields()

    def config(self, rng, family):
        """A config, what was done to it, and whether a type is wrong."""
        config = base_config(family)
        cls = CONFIG_MAPPING[config["model_type"]]
        own = class_fields(cls)
        synonyms = {}
        for other, name in cls.attribute_map.items():
            synonyms.setdefault(name, []).append(other)
            synonyms.setdefault(other, []).append(name)
        layers = cls(**base_config(family)).num_hidden_layers
        done, wrong = [], []
        for _ in range(rng.choice([1, 1, 2, 2, 3, 4, 6])):
            what = rng.choices(["absent", "null", "value", "foreign", "wrong", "synonym", "rope", "add"],
                               [3, 2, 5, 6, 2, 1, 2, 3])[0]
            name = rng.choice(sorted(own))
            if what == "absent":
                name = rng.choice(sorted(set(config) - {"model_type", "architectures"}))
                if name in SIZES and rng.random() < 0.8:
                    continue
                config.pop(name)
            elif what == "null":
                config[name] = None
            elif what in ("value", "add"):
                value = config.get(name, own[name])
                if value is None:
                    value = rng.choice(self.foreign.get(name, [None]))
                if what == "value" or name not in config:
                    config[name] = other_value(rng, name, value, layers) if what == "value" else value
            elif what == "foreign":
                name = rng.choice(sorted(set(self.foreign) - set(own)))
                config[name] = rng.choice([*self.foreign[name], None])
            elif what == "wrong":
                config[name] = wrong_type(rng, own[name])
                wrong.append(name)
            elif what == "synonym":
                present = sorted(set(config) & set(synonyms))
                if not present:
                    continue
                name = rng.choice(present)
                config[rng.choice(synonyms[name])] = config.pop(name)
            else:
                rope_variant(rng, config)
                name = ""
            done.append(f"{what} {name}={json.dumps(config.get(name))[:60]}" if name else what)
        return config, done, wrong


def attention_of(config):
    """Falcon's own attention adds linear biases twice, to the scores and to the mask."""
    return "sdpa" if config.model_type == "falcon" and config.alibi else "eager"


class Reference:
    """Logits of transformers, with keys and values rounded as Gabbro's are, and a folder with the model."""

    def __init__(self, kv_type):
        self.base, self.kv_type = {}, kv_type

    def new_model(self, config):
        config._attn_implementation = attention_of(config)
        with torch.device("meta"):
            planned = transformers.AutoModelForCausalLM.from_config(config)
        if sum(value.numel() for value in planned.parameters()) > MOST_PARAMETERS:
            return None
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        randomize(model, 7)
        model.tie_weights()
        return model

    def weights_of_base(self, family, folder):
        if family not in self.base:
            base = base_config(family)
            model = self.new_model(CONFIG_MAPPING[base["model_type"]](**base))
            self.base[family] = tempfile.mkdtemp(prefix="base-")
            model.save_pretrained(self.base[family])
        shutil.copy(pathlib.Path(self.base[family]) / "model.safetensors", folder / "model.safetensors")

    def run(self, family, config, folder, ids):
        """Logits, or what went wrong."""
        (folder / "config.json").write_text(json.dumps(config, indent=1))
        try:
            made = transformers.AutoConfig.from_pretrained(folder)
            model = self.new_model(made)
            if model is not None:
                model.save_pretrained(folder)
                (folder / "config.json").write_text(json.dumps(config, indent=1))
                # Read again, since making the model changes a config.
                made = transformers.AutoConfig.from_pretrained(folder)
            else:
                self.weights_of_base(family, folder)
            return self.logits(folder, made, ids)
        except BaseException as error:  # noqa: BLE001: whatever transformers raises
            if isinstance(error, KeyboardInterrupt):
                raise
            if not (folder / "model.safetensors").exists():
                self.weights_of_base(family, folder)
            (folder / "config.json").write_text(json.dumps(config, indent=1))
            return f"{type(error).__name__}: {str(error).strip().splitlines()[-1] if str(error).strip() else ''}"

    def logits(self, folder, config, ids):
        with torch.device("meta"):
            planned = transformers.AutoModelForCausalLM.from_config(config)
        if sum(value.numel() for value in planned.parameters()) > MOST_PARAMETERS:
            return "the file holds other sizes"
        model, loading = transformers.AutoModelForCausalLM.from_pretrained(
            folder, output_loading_info=True, dtype=torch.float32, attn_implementation=attention_of(config))
        if loading["missing_keys"]:
            return f"missing: {sorted(loading['missing_keys'])[:2]}"
        exact = self.kv_type == "f32" or getattr(config, "kv_lora_rank", None) is not None
        rounded = {} if exact else {"cache": HalfCache(config=config)}
        with torch.no_grad():
            try:
                found = model.eval()(torch.tensor([ids]), **rounded).logits[0].float().numpy()
            except TypeError:  # a model without such a cache
                found = model(torch.tensor([ids])).logits[0].float().numpy()
        return found if numpy.isfinite(found).all() else "not finite"


def run_gabbro(options, folder, ids, model=""):
    """Logits, or the line that refuses the model: the folder, or a file in it."""
    out = folder / "logits.npy"
    command = [str(options.gabbro), "logits", str(folder / model), "--tokens", ",".join(map(str, ids)), "--out", str(out),
               "--device", "cpu", "--threads", "1", "--kv-type", options.kv_type]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return numpy.load(out) if done.returncode == 0 else refusal(done, folder)


def refusal(done, folder):
    lines = done.stderr.strip().splitlines()
    if done.returncode != 2 or not any("error:" in line for line in lines):
        raise SystemExit(f"{folder}: gabbro ended with {done.returncode}: {done.stderr}")
    return next(line for line in lines if "error:" in line).replace(str(folder), "")


def judge_converted(options, folder, ids, found):
    """Why the GGUF file is another model than the folder; "" where it is the same one, or is refused."""
    done = subprocess.run([str(options.gabbro), "convert", str(folder), "--type", "f32", "-o", str(folder / "x.gguf")],
                          capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        print(f"    not converted: {refusal(done, folder)}")
        return ""
    again = run_gabbro(options, folder, ids, "x.gguf")
    if isinstance(again, str):
        return f"the converted file is refused: {again}"
    difference = numpy.abs(again - found).max() / max(numpy.abs(found).max(), 1e-6)
    return "" if difference <= 1e-5 else f"the converted file's logits differ by {difference:.1e}"


def judge(options, expected, found, wrong):
    """Why they differ; "" where they do not."""
    if isinstance(expected, str) and isinstance(found, str):
        return ""
    if isinstance(expected, str):
        return f"only transformers refuses: {expected}"
    if isinstance(found, str):
        named = any(f"{name}'" in found or f"{name}." in found for name in wrong)
        return "" if named else f"only Gabbro refuses: {found}"
    if expected.shape != found.shape:
        return f"shapes {expected.shape} and {found.shape}"
    difference = numpy.abs(expected - found).max() / max(numpy.abs(expected).max(), 1e-6)
    return "" if difference <= options.tolerance else f"logits differ by {difference:.1e}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--family", nargs="*", default=TEN, choices=sorted(FAMILIES) + ["all"])
    parser.add_argument("--kv-type", default="f32", help="f16: both sides round keys and values (default: f32)")
    parser.add_argument("--tolerance", type=float, default=2e-3, help="relative to the largest logit")
    parser.add_argument("--convert", action="store_true", help="convert each model, and compare the file as well")
    parser.add_argument("--gabbro", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "gabbro")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the models that differ")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    families = sorted(FAMILIES) if "all" in options.family else options.family
    generator, reference = Generator(), Reference(options.kv_type)
    ids = numpy.random.default_rng(1).integers(3, COMMON["vocab_size"], TOKENS).tolist()
    counts = collections.Counter()
    for number in range(options.count) if options.only is None else [options.only]:
        rng = random.Random(zlib.crc32(f"{options.seed} {number}".encode()))
        family = families[number % len(families)]
        config, done, wrong = generator.config(rng, family)
        with tempfile.TemporaryDirectory(prefix="config-") as name:
            folder = pathlib.Path(name)
            expected = reference.run(family, config, folder, ids)
            found = run_gabbro(options, folder, ids)
            why = judge(options, expected, found, wrong)
            if options.convert and not why and not isinstance(found, str):
                why = judge_converted(options, folder, ids, found)
            both = "both give logits" if not isinstance(expected, str) and not isinstance(found, str) else "errors"
            if any(limit in why for limit in LIMITS):
                both, why = "one side cannot", ""
            counts["differ" if why else both] += 1
            if why:
                print(f"{number} {family}: {why}\n    {'; '.join(done)}", flush=True)
                if options.keep:
                    shutil.copytree(folder, options.keep / str(number), dirs_exist_ok=True)
            elif options.only is not None:
                print(json.dumps(config), done, expected if isinstance(expected, str) else "", found)
    for folder in reference.base.values():
        shutil.rmtree(folder)
    print(f"{sum(counts.values())} configs: {dict(counts)}")
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main())
