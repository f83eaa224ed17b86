#!/usr/bin/env python3
"""Compares the logits of a tiny random model of every family, as transformers saves it in f32, with transformers.

Each is compared unchanged, and with fields of all other configuration classes in its config.json, which both sides have to
ignore. Needs torch and transformers; all families take two minutes.

    compare_families.py [NAME ...] [--kv-type TYPE] [--tolerance X] [--gabbro PATH]
"""
import argparse
import json
import pathlib
import re
import sys
import tempfile
import types
import warnings

import numpy
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from compare_random_configs import COMMON, FAMILIES, ROOT, Reference, base_config, run_gabbro

CLASSES = ROOT / "src" / "models" / "config" / "config_classes.inc"
OF_ALL = {"layer_types", "mlp_layer_types", "rope_parameters", "rope_theta", "rope_scaling", "partial_rotary_factor",
          "original_max_position_embeddings"}  # read for every class, or every one with rotary embeddings
VALUES = {"i": 3, "f": 0.37, "b": True, "I": [0, 1], "S": ["sliding_attention"], "s": "relu"}


def rows():
    found = re.findall(r'\{"([^"]+)", R"json\(\n(.*?)\)json"\}', CLASSES.read_text(), re.S)
    return {name: json.loads(row) for name, row in found}


def foreign_fields(model_type, table):
    """Fields of other classes, with values that would make another model."""
    row = table[model_type]
    known = {key.split(":")[0] for key in row["fields"]} | set(row.get("further", [])) | set(row.get("fixed", [])) | OF_ALL
    known |= {name for pair in row.get("synonyms", {}).items() for name in pair}
    return {name: VALUES[next(one for one in kinds if one in VALUES)]
            for other in table.values() for name, kinds in (key.split(":") for key in other.get("fields", {}))
            if name not in known and any(one in VALUES for one in kinds)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=sorted(FAMILIES))
    parser.add_argument("--kv-type", default="f32", help="f16: both sides round keys and values (default: f32)")
    parser.add_argument("--tolerance", type=float, help="relative to the largest logit; 1e-5 with --kv-type f32, else 2e-3")
    parser.add_argument("--gabbro", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "gabbro")
    options = parser.parse_args()
    tolerance = options.tolerance or (1e-5 if options.kv_type == "f32" else 2e-3)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    reference, table, worst = Reference(options.kv_type), rows(), {}
    ids = numpy.random.default_rng(1).integers(3, COMMON["vocab_size"], 28).tolist()
    run = types.SimpleNamespace(gabbro=options.gabbro, kv_type=options.kv_type)
    for name in options.names:
        config = base_config(name)
        foreign = foreign_fields(config["model_type"], table)
        with tempfile.TemporaryDirectory(prefix="family-") as path:
            folder = pathlib.Path(path)
            reference.new_model(CONFIG_MAPPING[config["model_type"]](**config)).save_pretrained(folder)
            for what, fields in (("as saved", json.loads((folder / "config.json").read_text())), ("", config)):
                expected = None
                for further in ({}, foreign):
                    (folder / "config.json").write_text(json.dumps({**fields, **further}))
                    if expected is None:
                        expected = reference.logits(folder, transformers.AutoConfig.from_pretrained(folder), ids)
                    found = run_gabbro(run, folder, ids)
                    if isinstance(expected, str) or isinstance(found, str):
                        difference = numpy.inf
                        print(f"{name}: {expected if isinstance(expected, str) else found}")
                    else:
                        difference = numpy.abs(expected - found).max() / numpy.abs(expected).max()
                    worst[name] = max(worst.get(name, 0), difference)
        verdict = "" if worst[name] <= tolerance else "  DIFFERS"
        print(f"{name:20} {worst[name]:.1e}  {len(foreign)} foreign fields{verdict}", flush=True)
    bad = [name for name, value in worst.items() if value > tolerance]
    print(f"{len(worst)} families, {len(bad)} beyond {tolerance:g}: the worst {max(worst.values()):.1e}")
    return 1 if bad else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
