#!/usr/bin/env python3
"""Plants faults in kernels of a copy of the CPU's plugin, and in weights, and counts how often parity names them.

    measure_operations.py BUILD [--type llama] [--kernels NAME,...] [--weights NAME,...]

BUILD is a build folder with bin/gabbro. The copy of the plugin is compiled in a temporary folder from changed sources;
nothing in BUILD is written. A changed weight stands for a fault of the operation that uses it: Gabbro gets it, and
transformers does not. Right is: the first layer, and the operation in it. Exit code 1 below 95 %.
"""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNNER = ROOT / "python" / "gabbro" / "testgen" / "runner.py"
CPU = "backends/cpu/"
# Name: changed file, its text, what takes its place, sources to compile, the operation that it is.
KERNELS = {
    "rope": (CPU + "kernels/attention/rope_math.h", "both.sine * splat(shape.magnitude)",
             "both.sine * splat(1.01f * shape.magnitude)", [CPU + "kernels/attention/rope.cc"], "rope_q"),
    "attention": (CPU + "kernels/attention/attention.cc", "from[d] * plan_.scale", "from[d] * plan_.scale * 1.01f",
                  [CPU + "kernels/attention/attention.cc"], "attention"),
    "fused_norm": (CPU + "kernels/linear/linear_activations.cc", "splat(1.0f / std::sqrt", "splat(1.001f / std::sqrt",
                   [CPU + "kernels/linear/linear_activations.cc"], "attn_q"),
    "silu": (CPU + "simd/math.h", "return x / (splat(1.0f) + exp(splat(0.0f) - x));",
             "return x / (splat(1.001f) + exp(splat(0.0f) - x));",
             [CPU + "kernels/elementwise/unary.cc", CPU + "kernels/elementwise/fused_elementwise.cc",
              CPU + "kernels/linear/linear.cc"], "ffn_activation"),
}
# Operation: the weight of the first layer that is changed in what Gabbro gets.
WEIGHTS = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "mixer": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_output": "mlp.down_proj",
}
# Run by pytest next to the pack's files: the saved model gets another weight.
PLUGIN = '''
import os

import safetensors.torch


def pytest_collection_modifyitems():
    import test_parity

    save = test_parity.save

    def changed(folder, *rest):
        ids = save(folder, *rest)
        path = folder / "model.safetensors"
        tensors = safetensors.torch.load_file(path)
        name = next(name for name in tensors if "layers.0." + os.environ["CHANGED_WEIGHT"] in name)
        tensors[name] = tensors[name] * 1.01
        safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
        return ids

    test_parity.save = changed
'''


def commands_of(build):
    words = ["ninja", "-C", build, "-t", "commands", "lib/libgabbro_cpu.so"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if not line.startswith("ninja:")]


def run(command, build):
    subprocess.run(command, shell=True, cwd=build, check=True)


def plugin_copy(build, name, folder):
    """Compiles the changed sources with the build's own commands and links libgabbro_cpu.so in `folder`."""
    changed, text, other, sources, _ = KERNELS[name]
    source = (ROOT / changed).read_text()
    if text not in source:
        raise ValueError(f"{changed} does not have the text {text!r}")
    (folder / changed).parent.mkdir(parents=True)
    (folder / changed).write_text(source.replace(text, other))
    commands, moved = commands_of(build), {}
    for line in commands:
        words = shlex.split(line)
        if "-c" not in words or "-o" not in words:
            continue
        path = pathlib.Path(words[words.index("-c") + 1])
        if path.is_absolute() and path.is_relative_to(ROOT) and str(path.relative_to(ROOT)) in sources:
            old, made = words[words.index("-o") + 1], folder / f"{len(moved)}.o"
            words[words.index("-o") + 1] = str(made)
            words[words.index("-MF") + 1] = str(folder / "depends")
            if str(path.relative_to(ROOT)) == changed:
                words[words.index("-c") + 1] = str(folder / changed)
            at = next(i for i, word in enumerate(words) if word.startswith("-I"))
            run(shlex.join([*words[:at], f"-I{folder}", *words[at:]]), build)
            moved[old] = made
    kinds = [line for line in commands if " -r " in line or "libgabbro_cpu_core.a" in line]
    for line in kinds:
        for old, made in moved.items():
            place = old.replace(".dir/", ".dir/./")
            line = line.replace(f"{build}/{place}", str(made)).replace(old, str(made))
        for old in sorted({w for w in shlex.split(line) if "gabbro_cpu_" in w and w.endswith((".o", ".a"))
                           and ".dir/" not in w} | {"lib/libgabbro_cpu.so"}, key=len, reverse=True):
            line = line.replace(old, str(folder / pathlib.Path(old).name))
        run(line, build)


def named(pack, environment, plugins=()):
    """What the parity test names: {"layer", "operation"}; nothing where it passes."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--device", "cpu", "--no-isolate",
             "test_parity.py", "-k", "test_parity and lively", *[w for p in plugins for w in ("-p", p)]]
    environment = {**os.environ, **environment}
    done = subprocess.run(words, cwd=pack, env=environment, capture_output=True, text=True, check=False)
    lines = [line[1:].strip() for line in done.stdout.splitlines() if line.startswith("E ")]
    operation = next((line for line in lines if line.startswith("operation: ")), "")
    layer = next((line for line in lines if "Gabbro " in line), "")
    return {"layer": layer.partition("Gabbro ")[2].partition(" in ")[0], "text": operation or " ".join(lines[:3]),
            "operation": operation.partition("(")[2].partition(")")[0]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--type", default="llama")
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--weights", default=",".join(WEIGHTS))
    options = parser.parse_args()
    build = pathlib.Path(options.build).resolve()
    program = build / "bin" / "gabbro"
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", GABBRO_PROGRAM=str(program))
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        pack = folder / "pack"
        words = [program, "testgen", options.type, "--engine", "gabbro", "--checks", "parity", "-o", pack]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        pack = next(path.parent for path in pack.rglob("case.py"))
        (folder / "change_weight.py").write_text(PLUGIN)
        for name in filter(None, options.kernels.split(",")):
            (folder / name).mkdir()
            plugin_copy(build, name, folder / name)
            found = named(pack, {"GABBRO_PLUGIN_PATH": str(folder / name)})
            rows.append({"fault": f"kernel {name}", "expected": KERNELS[name][4], **found})
            print(json.dumps(rows[-1]), flush=True)
        for name in filter(None, options.weights.split(",")):
            environment = {"PYTHONPATH": str(folder), "CHANGED_WEIGHT": WEIGHTS[name]}
            rows.append({"fault": f"weight of {name}", "expected": name, **named(pack, environment, ["change_weight"])})
            print(json.dumps(rows[-1]), flush=True)
        clean = named(pack, {})
    right = sum(row["operation"] == row["expected"] and row["layer"].endswith("layers.0") for row in rows)
    print(f"{right} of {len(rows)} named; without a fault: {clean['text'] or 'nothing named'}")
    return int(right < 0.95 * len(rows) or bool(clean["text"]))


if __name__ == "__main__":
    sys.exit(main())
