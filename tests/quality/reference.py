#!/usr/bin/env python3
"""Float32 logits of a llama-family GGUF file, computed by transformers from the dequantized weights.

Needs numpy, gguf, torch and transformers; runs outside CI.

    reference.py MODEL.gguf --tokens TOKENS.txt --out REFERENCE.npy

TOKENS.txt holds token ids separated by commas or white space. The result is float32 [tokens, vocabulary].
"""
import argparse
import pathlib
import re

import gguf
import numpy
import torch
import transformers


def read_metadata(reader):
    """The scalar metadata fields of the file, by name."""
    fields = {}
    for name, field in reader.fields.items():
        if len(field.data) == 1 and field.types[0] is not gguf.GGUFValueType.ARRAY:
            fields[name] = field.contents()
    return fields


def llama_config(fields, tensors):
    architecture = fields["general.architecture"]
    if architecture != "llama":
        raise SystemExit(f"reference: error: architecture '{architecture}' is not supported here, only 'llama'")
    get = lambda name, default=None: fields.get(f"llama.{name}", default)
    if get("rope.scaling.type", "none") != "none" or "rope_freqs.weight" in tensors:
        raise SystemExit("reference: error: RoPE scaling is not supported here")
    heads = get("attention.head_count")
    return transformers.LlamaConfig(
        vocab_size=tensors["token_embd.weight"].shape[0],
        hidden_size=get("embedding_length"),
        intermediate_size=get("feed_forward_length"),
        num_hidden_layers=get("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=get("attention.head_count_kv", heads),
        head_dim=get("attention.key_length", get("embedding_length") // heads),
        rms_norm_eps=get("attention.layer_norm_rms_epsilon"),
        rope_theta=get("rope.freq_base", 10000.0),
        rope_parameters={"rope_type": "default", "rope_theta": get("rope.freq_base", 10000.0)},
        max_position_embeddings=get("context_length"),
        tie_word_embeddings="output.weight" not in tensors,
        attention_bias="blk.0.attn_q.bias" in tensors,
    )


def unpermute(weight, heads):
    """GGUF files of this family keep the rows of Q and K with RoPE's pairs adjacent; transformers has them half a head apart."""
    rows = weight.shape[0]
    return weight.reshape(heads, rows // heads // 2, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


# GGUF name -> name in transformers, inside a layer.
LAYER_NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
MODEL_NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
               "output.weight": "lm_head.weight"}


def state_dict(tensors, config):
    """The dequantized weights under their names in transformers."""
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    state = {}
    for name, weight in tensors.items():
        if name in MODEL_NAMES:
            state[MODEL_NAMES[name]] = torch.from_numpy(weight)
            continue
        match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
        if not match or match[2] not in LAYER_NAMES:
            raise SystemExit(f"reference: error: unexpected tensor '{name}'")
        if match[2] in heads:
            weight = numpy.ascontiguousarray(unpermute(weight, heads[match[2]]))
        state[f"model.layers.{match[1]}.{LAYER_NAMES[match[2]]}.{match[3]}"] = torch.from_numpy(weight)
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tokens", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    tokens = [int(word) for word in re.split(r"[\s,]+", args.tokens.read_text().strip())]
    reader = gguf.GGUFReader(args.model)
    tensors = {}
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        # A copy: what the file's map holds is read-only.
        tensors[tensor.name] = numpy.array(values, dtype=numpy.float32).reshape(tuple(int(n) for n in tensor.shape[::-1]))
    config = llama_config(read_metadata(reader), tensors)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    model.load_state_dict(state_dict(tensors, config), assign=True, strict=True)
    # Buffers (RoPE's frequencies) are not in the file: compute them off the meta device.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    model.eval()
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0]  # [T, V]
    numpy.save(args.out, logits.float().numpy())


if __name__ == "__main__":
    main()
