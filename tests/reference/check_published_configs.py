#!/usr/bin/env python3
"""Counts the parameters of the configurations in src/models/llm/published_configs.cc with transformers, on the meta device:
they have to be within 1 % of the published numbers there, and the counts of `gabbro fit` within 0.1 % of transformers'.

  check_published_configs.py [GABBRO] [NAME...]
"""
import json
import os
import pathlib
import re
import subprocess
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

TABLE = pathlib.Path(__file__).resolve().parents[2] / "src" / "models" / "llm" / "published_configs.cc"
LEFT_OUT = ("mtp.", "eh_proj")  # layers that predict further tokens


def rows():
    for name, parameters, config in re.findall(r'\{"([^"]+)",\s*([\d.e+]+),\s*R"\((.*?)\)"', TABLE.read_text(), re.DOTALL):
        yield name, float(parameters), json.loads(config)


def count(config):
    config = dict(config)
    model_type = config.pop("model_type")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **config))
    return sum(p.numel() for n, p in model.named_parameters() if not n.startswith(LEFT_OUT)) + sum(
        b.numel() for n, b in model.named_buffers() if n.endswith("e_score_correction_bias"))


def main():
    gabbro, names = (sys.argv[1] if len(sys.argv) > 1 else None), sys.argv[2:]
    wrong = 0
    for name, published, config in rows():
        if names and name not in names:
            continue
        try:
            counted = count(config)
        except Exception as error:  # a class that this transformers lacks
            print(f"{name:26} {published / 1e9:9.3f} B  transformers: {str(error).splitlines()[0][:90]}")
            wrong += 1
            continue
        line = f"{name:26} {published / 1e9:9.3f} B  transformers {counted / 1e9:9.3f} ({counted / published - 1:+.2%})"
        wrong += abs(counted / published - 1) > 0.01
        if gabbro:
            done = subprocess.run([gabbro, "fit", "--shape", name, "--json"], capture_output=True, text=True,
                                  env={**os.environ, "GABBRO_DEVICE": "cpu"}, check=True)
            here = json.loads(done.stdout)["parameters"]
            line += f"  gabbro {here / 1e9:9.3f} ({here / counted - 1:+.3%})"
            wrong += abs(here / counted - 1) > 0.001
        print(line, flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
