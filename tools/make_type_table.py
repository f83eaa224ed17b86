#!/usr/bin/env python3
"""Writes src/testgen/data/types.json, the table of model types of an installed transformers.

    tools/make_type_table.py [-o FILE]

One line a type: its family, its model class for each task, the arguments of each class's forward(), and the values of a
configuration without arguments. Nothing is downloaded, and no model is built. src/testgen reads the table.
"""
import argparse
import inspect
import json
import os
import pathlib
import re
import sys
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
warnings.filterwarnings("ignore")

import transformers  # noqa: E402
from transformers.models.auto import configuration_auto, modeling_auto  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Names of the mapping tables that do not follow from "MODEL_FOR_<TASK>_MAPPING_NAMES".
TASK_NAMES = {"MODEL_MAPPING_NAMES": "base", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES": "causal-lm",
              "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES": "seq2seq-lm",
              "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES": "speech-seq2seq"}
# Fields that say nothing about the shape of a model.
NOISE = {"transformers_version", "id2label", "label2id", "_name_or_path", "architectures", "dtype", "torch_dtype",
         "output_hidden_states", "output_attentions", "return_dict", "problem_type", "_attn_implementation_autoset"}
ABSENT = object()
IGNORED_ARGUMENTS = {"self", "kwargs", "args", "output_attentions", "output_hidden_states", "return_dict", "labels",
                     "logits_to_keep", "cache_position"}


def task_of(table):
    """"causal-lm" for MODEL_FOR_CAUSAL_LM_MAPPING_NAMES; None for a table that is not of a task."""
    if table in TASK_NAMES:
        return TASK_NAMES[table]
    match = re.fullmatch(r"MODEL_FOR_(.*)_MAPPING_NAMES", table)
    return match and match[1].lower().replace("_", "-")


def plain(value):
    """The value as JSON, or ABSENT where it has none (infinity): the class has its default."""
    try:
        return json.loads(json.dumps(value, default=str, allow_nan=False))
    except (TypeError, ValueError):
        return ABSENT


def differing(values, base):
    """The fields of a configuration that differ from its base class, or that only it has; nested ones too."""
    result = {}
    for name, value in values.items():
        if name in NOISE or (name in base and base[name] == value and name != "model_type"):
            continue
        result[name] = differing(value, base) if isinstance(value, dict) and "model_type" in value else plain(value)
    return {name: value for name, value in result.items() if value is not ABSENT}


def read_defaults(name, base):
    """(configuration class, values); values are None where the class has no defaults."""
    config_class = configuration_auto.CONFIG_MAPPING[name]
    try:
        return config_class, differing(config_class().to_dict(), base)
    except Exception as error:  # any class of the library may refuse, each in its own way: recorded as "without defaults"
        print(f"{name}: no defaults: {type(error).__name__}: {str(error).splitlines()[:1]}", file=sys.stderr)
        return config_class, None


def arguments_of(class_name):
    """Arguments of forward() in order, "*" after those without a default; None where the class cannot be imported."""
    try:
        model_class = getattr(transformers, class_name)
        parameters = inspect.signature(model_class.forward).parameters.values()
    except Exception as error:  # a library that is not installed
        print(f"{class_name}: {type(error).__name__}", file=sys.stderr)
        return None
    named = [p for p in parameters if p.name not in IGNORED_ARGUMENTS and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    found = [p.name + ("*" if p.default is p.empty else "") for p in named]
    return [str(getattr(model_class, "main_input_name", "input_ids")), *found]


def family_of(tasks, values, arguments):
    """One of the families that `gabbro testgen --list families` names."""
    has = set(arguments).__contains__
    names = " ".join(values or {})
    text, image = has("input_ids") or has("input_ids*"), any(a.startswith("pixel_values") for a in arguments)
    for family, holds in (
            ("time-series", any(t.startswith("time-series") for t in tasks)),
            ("protein-folding", "esmfold_config" in names),
            ("object-detection", bool({"object-detection", "zero-shot-object-detection"} & tasks)),
            ("video-processing", "video-classification" in tasks),
            ("multimodal", bool({"image-text-to-text", "multimodal-lm", "visual-question-answering"} & tasks)),
            ("speech", bool({"ctc", "speech-seq2seq", "audio-classification", "text-to-waveform", "text-to-spectrogram", "rnnt",
                             "tdt", "audio-xvector"} & tasks) or has("input_values") or has("input_features")),
            ("vision-text", text and image),
            ("vision", image),
            ("state-space", any(w in names for w in ("state_size", "ssm_", "mamba_", "time_step_rank")) and "causal-lm" in tasks),
            ("mixture-of-experts", "expert" in names and "causal-lm" in tasks),
            ("encoder-decoder", bool((values or {}).get("is_encoder_decoder")) or "seq2seq-lm" in tasks),
            ("decoder-only", "causal-lm" in tasks and "masked-lm" not in tasks),
            ("encoder-only", bool({"masked-lm", "sequence-classification", "base"} & tasks) and text)):
        if holds:
            return family
    return "other"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", default=str(ROOT / "src/testgen/data/types.json"))
    options = parser.parse_args()
    tables = {task_of(n): getattr(modeling_auto, n) for n in dir(modeling_auto) if n.endswith("_MAPPING_NAMES") and task_of(n)}
    autos = {id(getattr(modeling_auto, n[:-6], None)): n for n in dir(modeling_auto) if n.endswith("_MAPPING_NAMES")}
    auto_classes = {}
    for name in dir(modeling_auto):
        mapping = getattr(getattr(modeling_auto, name), "_model_mapping", None)
        if name.startswith("AutoModel") and mapping is not None and id(mapping) in autos:
            auto_classes[task_of(autos[id(mapping)])] = name
    base = transformers.PretrainedConfig().to_dict()
    signatures, lines = [], []
    for name in sorted(configuration_auto.CONFIG_MAPPING_NAMES):
        config_class, values = read_defaults(name, base)
        classes = {}
        for task, table in sorted(tables.items()):
            entry = table.get(name)
            if entry:
                classes[task] = entry if isinstance(entry, str) else entry[0]
        inputs, arguments = {}, []
        for class_name in sorted(set(classes.values())):
            found = arguments_of(class_name)
            if found is not None:
                if found not in signatures:
                    signatures.append(found)
                inputs[class_name] = signatures.index(found)
                arguments += found[1:]
        row = {"config": config_class.__name__, "family": family_of(set(classes), values, arguments), "classes": classes,
               "inputs": inputs, "defaults": values}
        lines.append(f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}")
    head = {"about": "Generated by tools/make_type_table.py", "transformers": transformers.__version__, "tasks": dict(sorted(auto_classes.items())), "signatures": signatures}
    text = json.dumps(head, separators=(",", ":"))[:-1] + ',\n"types":{\n' + ",\n".join(lines) + "\n}}\n"
    json.loads(text)
    pathlib.Path(options.o).write_text(text)
    print(f"{len(lines)} types, {len(signatures)} signatures, {len(text)} bytes")


if __name__ == "__main__":
    main()
