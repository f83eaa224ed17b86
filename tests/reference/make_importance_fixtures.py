#!/usr/bin/env python3
"""Writes tests/data/importance: mean squares of the inputs of matrices, computed by torch from models of
tests/data/families, for each matrix and each expert. NAME.safetensors has `ids` i32 [T] and, under the names of GGUF,
sums of squares f32 [E, K] (".in_sum2") and counts f32 [E] (".counts"). Needs torch and transformers.
"""
import torch
import transformers
from safetensors.torch import load_file, save_file

from make_family_fixtures import HalfCache, OUT as FAMILIES

OUT = FAMILIES.parent / "importance"
LINEARS = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
           "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
           "mlp.down_proj": "ffn_down", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
           "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp"}


def dense(model, sums):
    """Hooks on linear layers."""
    def hook_of(name):
        def hook(module, inputs, output):
            rows = inputs[0].reshape(-1, inputs[0].shape[-1]).double()
            sums[name + ".in_sum2"] = (rows ** 2).sum(0, keepdim=True)
            sums[name + ".counts"] = torch.tensor([float(len(rows))])
        return hook

    for name, module in model.named_modules():
        part = name.removeprefix("model.layers.").partition(".")
        if part[2] in LINEARS and isinstance(module, torch.nn.Linear):
            module.register_forward_hook(hook_of(f"blk.{part[0]}.{LINEARS[part[2]]}.weight"))


def experts(model, sums):
    """The sums of each expert, from the router's choice: computed again outside of the model's own loop."""
    def hook_of(layer, module):
        def hook(experts_module, inputs, output):
            hidden, chosen = inputs[0].reshape(-1, inputs[0].shape[-1]), inputs[1]
            count = experts_module.gate_up_proj.shape[0]
            for e in range(count):
                x = hidden[(chosen == e).any(-1)]
                gate, up = (x @ experts_module.gate_up_proj[e].T).chunk(2, -1)
                inner = torch.nn.functional.silu(gate) * up
                for name, rows in (("ffn_gate_exps", x), ("ffn_up_exps", x), ("ffn_down_exps", inner)):
                    key = f"blk.{layer}.{name}.weight"
                    sums.setdefault(key + ".in_sum2", []).append((rows.double() ** 2).sum(0))
                    sums.setdefault(key + ".counts", []).append(float(len(rows)))
        return hook

    for name, module in model.named_modules():
        if name.endswith(".mlp.experts"):
            module.register_forward_hook(hook_of(name.split(".")[2], module))


def write(family):
    model = transformers.AutoModelForCausalLM.from_pretrained(FAMILIES / family, dtype=torch.float32,
                                                              attn_implementation="eager").eval()
    ids = load_file(FAMILIES / family / "expected.safetensors")["ids"]
    sums = {}
    dense(model, sums)
    experts(model, sums)
    with torch.no_grad():
        model(ids.long()[None], cache=HalfCache(config=model.config))
    found = {name: (torch.stack(value) if isinstance(value[0], torch.Tensor) else torch.tensor(value))
             if isinstance(value, list) else value for name, value in sums.items()}
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{family}.safetensors"
    save_file({"ids": ids, **{name: value.float().contiguous() for name, value in found.items()}}, path)
    unused = sum(int((value == 0).sum()) for name, value in found.items() if name.endswith(".counts"))
    print(f"{path.name}: {len(found) // 2} matrices, {unused} experts without tokens, "
          f"{path.stat().st_size / 1e3:.0f} KB")


def main():
    for family in ("llama", "mixtral", "qwen2_moe"):
        write(family)


if __name__ == "__main__":
    main()
