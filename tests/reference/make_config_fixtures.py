#!/usr/bin/env python3
"""Writes src/models/config/config_classes.inc: what transformers' configuration class of each supported model_type has.

A row has the class's fields with their types and defaults, other names for them, names that are read by other code
(`kwargs.pop("sliding_window_pattern")`, `getattr(config, "head_dim")`), and what rotary embeddings are without a word
in config.json. src/models/config/config_class.h explains the form. Needs transformers.

    make_config_fixtures.py [--check]    --check: only compare with the file, and exit 1 where it differs
"""
import ast
import dataclasses
import importlib
import inspect
import json
import pathlib
import re
import sys
import textwrap
import types
import typing

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "src" / "models" / "config" / "config_classes.inc"
FAMILIES = ROOT / "src" / "models" / "llm" / "families"
BASE = transformers.PreTrainedConfig
BASE_FIELDS = {field.name for field in dataclasses.fields(BASE)}
KEPT = {"tie_word_embeddings", "vocab_size", "max_position_embeddings"}  # of all models
LETTERS = {int: "i", float: "f", bool: "b", str: "s", type(None): "n", dict: "d", list: "l", tuple: "l"}


def model_types():
    """Names of the families that transformers has a class for."""
    names = set()
    for path in sorted(FAMILIES.glob("*.cc")):
        for line in re.findall(r"constexpr std::string_view k\w+\[\] = \{[^;]*;", path.read_text()):
            names.update(re.findall(r'"([^"]+)"', line))
    return sorted(name for name in names if name in CONFIG_MAPPING)


def type_letters(kind):
    """int | None -> "in"; list[str] -> "S": capitals are lists of one type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return "".join(sorted(set("".join(type_letters(one) for one in arguments))))
    if origin is typing.Literal:
        return "s"
    if origin in (list, tuple):
        inner = "".join(type_letters(one) for one in arguments[:1])
        return inner.upper() if inner in ("i", "f", "s") else "l"
    if kind in LETTERS:
        return LETTERS[kind]
    if isinstance(kind, type) and issubclass(kind, BASE):
        return "d"
    if kind is transformers.modeling_rope_utils.RopeParameters or origin is dict:
        return "d"
    return "a"  # anything


def class_tree(cls):
    """Syntax of the methods that the class has beyond the base class."""
    for one in cls.__mro__:
        if one is BASE:
            return
        yield ast.parse(textwrap.dedent(inspect.getsource(one)))


def names_in_class(cls):
    """Names that its own code reads: of itself, and of the further fields of config.json."""
    read, further = set(), set()
    for tree in class_tree(cls):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self" and isinstance(node.ctx, ast.Load):
                read.add(node.attr)
            if not isinstance(node, ast.Call) or len(node.args) == 0 or not isinstance(node.args[0], ast.Constant):
                continue
            if ast.unparse(node.func) in ("kwargs.pop", "kwargs.get", "kwargs.setdefault"):
                further.add(node.args[0].value)
    return read, further


def fixed_names(cls):
    """Properties that cannot be set."""
    found = set()
    for one in cls.__mro__[:cls.__mro__.index(BASE)]:
        found.update(name for name, value in vars(one).items() if isinstance(value, property) and value.fset is None)
    return found


def modeling_tree(cls):
    module = cls.__module__.replace(".configuration_", ".modeling_")
    return ast.parse(pathlib.Path(importlib.util.find_spec(module).origin).read_text())


def names_in_model(tree):
    """Names that the code of the model reads, and of these the ones that it does without."""
    plain, optional = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("config", "self.config"):
            plain.add(node.attr)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and len(node.args) > 1:
            if ast.unparse(node.args[0]) in ("config", "self.config") and isinstance(node.args[1], ast.Constant):
                optional.add(node.args[1].value)
    return plain, optional


def bias_of(call, of_self):
    """Whether a linear layer has a bias: true, false, the name of a field, or None: it cannot be told."""
    value = next((keyword.value for keyword in call.keywords if keyword.arg == "bias"), None)
    if value is None:
        return True if ast.unparse(call.func) == "nn.Linear" and len(call.args) == 2 else None
    if isinstance(value, ast.Constant):
        return value.value
    text = ast.unparse(value)
    text = of_self.get(text, text)
    found = re.fullmatch(r"(?:self\.)?config\.(\w+)", text)
    return found.group(1) if found else None


def biases_of(tree):
    """Modules that never have a bias, or have one where a field says so."""
    found = {}
    for cls in ast.walk(tree):
        if not isinstance(cls, ast.ClassDef) or re.search("Vision|Audio|Classification|Answering", cls.name):
            continue
        of_self = {ast.unparse(node.targets[0]): ast.unparse(node.value) for node in ast.walk(cls)
                   if isinstance(node, ast.Assign)}
        for node in ast.walk(cls):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            target, kind = ast.unparse(node.targets[0]), ast.unparse(node.value.func)
            if target.startswith("self.") and re.search(r"(Linear|Conv1d)$", kind):
                found.setdefault(target[5:], set()).add(bias_of(node.value, of_self))
    return {name: kinds.pop() for name, kinds in sorted(found.items()) if len(kinds) == 1 and kinds <= kinds - {None, True}}


def default_of(field):
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return None
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, list):
        return [{"__float__": "Infinity"} if one == float("inf") else one for one in value]
    return value


def types_of(cls):
    """Types of rotary embeddings that the class calls by another name or refuses."""
    config = cls()
    sized = {"head_dim": config.head_dim or 64} if hasattr(config, "head_dim") and "head_dim" not in fixed_names(cls) else {}
    half = (getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads) // 2
    half = int(half * (config.rope_parameters.get("partial_rotary_factor") or 1))
    numbers = dict(factor=2.0, low_freq_factor=1.0, high_freq_factor=4.0, short_factor=[1.0] * half,
                   long_factor=[1.0] * half, short_mscale=1.0, long_mscale=1.0, original_max_position_embeddings=64)
    renamed, refused = {}, []
    for kind in ("linear", "dynamic", "yarn", "llama3", "longrope", "su"):
        try:
            found = cls(rope_parameters=dict(rope_type=kind, **numbers), **sized).rope_parameters["rope_type"]
        except Exception:
            refused.append(kind)
            continue
        if found != kind:
            renamed[kind] = found
        elif kind == "su":  # a name that only old files have
            refused.append(kind)
    return {key: value for key, value in (("renamed", renamed), ("refused", refused)) if value}


def rope_of(cls, tree):
    """What rotary embeddings are without a word (`unset`), and with a type alone; whose names are read for it."""
    if "rope_parameters" not in {field.name for field in dataclasses.fields(cls)}:
        return None
    unset = cls().rope_parameters
    if "full_attention" in unset:
        rope = {"theta": unset["full_attention"]["rope_theta"], "local_theta": unset["sliding_attention"]["rope_theta"]}
        for name in ("rope_local_base_freq", ):
            if cls(**{name: 7.25}).rope_parameters["sliding_attention"]["rope_theta"] == 7.25:
                rope["local_theta_name"] = name
        return rope
    base, fraction = 7.25, 0.375
    plain = cls(rope_parameters={"rope_type": "default"}).rope_parameters
    rope = {"theta": plain["rope_theta"]}
    if plain.get("partial_rotary_factor", 1) != 1:
        rope["fraction"] = plain["partial_rotary_factor"]
    for name in ("rope_theta", "rotary_emb_base"):
        if cls(rope_parameters={"rope_type": "default"}, **{name: base}).rope_parameters["rope_theta"] == base:
            rope["theta_name"] = name
    for name in ("partial_rotary_factor", "rotary_pct"):
        given = cls(rope_parameters={"rope_type": "default"}, **{name: fraction}).rope_parameters
        if given.get("partial_rotary_factor") == fraction:
            rope["fraction_name"] = name
    rope.update(types_of(cls))
    if unset["rope_type"] != "default":
        if cls(rope_theta=base).rope_parameters["rope_theta"] == base:
            del unset["rope_theta"]
        rope["unset"] = unset
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "compute_default_rope_parameters":
            if "partial_rotary_factor" in ast.unparse(node):
                rope["fraction_in_default"] = True
    return rope


def has_whole_heads(cls):
    """Whether the class refuses heads that do not divide the width."""
    names = {field.name for field in dataclasses.fields(cls)} | set(cls.attribute_map)
    if not {"hidden_size", "num_attention_heads"} <= names:
        return False
    try:
        cls(hidden_size=62, num_attention_heads=4)
    except Exception as error:
        return "multiple of the number of attention heads" in str(error) or "not divisible" in str(error)
    return False


def is_rotary_head_dim(tree):
    readers = {cls.name for cls in ast.walk(tree) if isinstance(cls, ast.ClassDef)
               and re.search(r"config, 'head_dim'|config\.head_dim", ast.unparse(cls))}
    return all("Rotary" in name for name in readers)


def needs_head_dim(tree):
    """Whether attention takes head_dim as it is given, be it null."""
    return any(re.search(r"self\.head_dim = getattr\(config, 'head_dim', config[^)]*\)(?! or)", ast.unparse(cls))
               for cls in ast.walk(tree) if isinstance(cls, ast.ClassDef) and "Attention" in cls.name)


def row_of(model_type):
    cls = CONFIG_MAPPING[model_type]
    text = cls.sub_configs_defaults.get("text_config")
    if text is not None:
        return {"text_config": text.model_type}
    tree = modeling_tree(cls)
    in_class, further = names_in_class(cls)
    plain, optional = names_in_model(tree)
    synonyms = dict(cls.attribute_map)
    canonical = {synonyms.get(name, name) for name in in_class | plain | optional}
    fields, unread = {}, []
    for field in dataclasses.fields(cls):
        if field.name in BASE_FIELDS:
            continue
        value = default_of(field)
        if field.name in cls.sub_configs:
            value = {f.name: default_of(f) for f in dataclasses.fields(cls.sub_configs[field.name])
                     if f.name not in BASE_FIELDS}
        fields[f"{field.name}:{type_letters(field.type)}"] = value
        if synonyms.get(field.name, field.name) not in canonical and field.name not in KEPT:
            unread.append(field.name)
    names = {key.split(":")[0] for key in fields} | set(synonyms)
    fixed = fixed_names(cls) - further
    row = {"fields": fields}
    if synonyms:
        row["synonyms"] = synonyms
    row["unread"] = unread
    row["further"] = sorted(name for name in (further | plain | optional) - names - BASE_FIELDS
                            if not name.startswith("_")
                            and (name in further or not isinstance(getattr(cls, name, None), property)))
    row["fixed"] = sorted(fixed)
    row["biases"] = biases_of(tree)
    if (rope := rope_of(cls, tree)) is not None:
        row["rope"] = rope
    if "head_dim" in row["further"] and is_rotary_head_dim(tree):
        row["rotary_head_dim"] = True
    elif "head_dim" in row["further"] and needs_head_dim(tree):
        row["no_null_head_dim"] = True
    if has_whole_heads(cls):
        row["whole_heads"] = True
    return {key: value for key, value in row.items() if value not in ([], {})}


def wrapped(text, width=116):
    """Text of JSON in lines, broken where a space is."""
    return "\n".join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False))


def table():
    lines = ["// Configuration classes of transformers " + transformers.__version__ +
             ", made by tests/reference/make_config_fixtures.py."]
    for model_type in model_types():
        text = json.dumps(row_of(model_type), separators=(", ", ":"))
        lines.append(f'{{"{model_type}", R"json(\n{wrapped(text)})json"}},')
    return "\n".join(lines) + "\n"


def main():
    transformers.logging.set_verbosity_error()
    text = table()
    if "--check" in sys.argv[1:]:
        same = OUT.read_text() == text
        verdict = "is that of" if same else "differs from"
        print(f"{OUT.relative_to(ROOT)}: {verdict} transformers {transformers.__version__}")
        return 0 if same else 1
    OUT.write_text(text)
    print(f"{OUT.relative_to(ROOT)}: {len(model_types())} classes, {len(text) / 1e3:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
