"""Names of tensors in the original layout of Stable Diffusion for names of diffusers, the reverse of diffusers'
conversion of single files, with which make_single_file_fixtures.py checks them."""
import re

RESNET = {"norm1": "in_layers.0", "conv1": "in_layers.2", "time_emb_proj": "emb_layers.1", "norm2": "out_layers.0",
          "conv2": "out_layers.3", "conv_shortcut": "skip_connection"}
ONCE = {"conv_in": "input_blocks.0.0", "conv_norm_out": "out.0", "conv_out": "out.2",
        "time_embedding.linear_1": "time_embed.0", "time_embedding.linear_2": "time_embed.2",
        "add_embedding.linear_1": "label_emb.0.0", "add_embedding.linear_2": "label_emb.0.2"}
OPEN_CLIP = {"self_attn.out_proj": "attn.out_proj", "layer_norm1": "ln_1", "layer_norm2": "ln_2", "mlp.fc1": "mlp.c_fc",
             "mlp.fc2": "mlp.c_proj"}


def of_unet(name, config):
    """`config`: unet/config.json."""
    blocks, levels = config["layers_per_block"] + 1, len(config["block_out_channels"])
    module, kind = name.rsplit(".", 1)
    if module in ONCE:
        return f"{ONCE[module]}.{kind}"
    words = name.split(".")
    if words[0] == "mid_block":
        number, rest = int(words[2]), words[3:]
        if words[1] == "attentions":
            return ".".join(["middle_block.1", *rest])
        return f"middle_block.{2 * number}.{RESNET[rest[0]]}.{rest[1]}"
    x, part, i, rest = int(words[1]), words[2], int(words[3]), words[4:]
    if part == "downsamplers":
        return f"input_blocks.{blocks * (x + 1)}.0.op.{kind}"
    if part == "upsamplers":
        position = 2 if config["up_block_types"][x].startswith("CrossAttn") else 1
        return f"output_blocks.{blocks * x + blocks - 1}.{position}.conv.{kind}"
    block = f"input_blocks.{blocks * x + i + 1}" if words[0] == "down_blocks" else f"output_blocks.{blocks * x + i}"
    if part == "attentions":
        return ".".join([block, "1", *rest])
    return f"{block}.0.{RESNET[rest[0]]}.{rest[1]}"


def of_autoencoder(name, levels):
    name = re.sub(r"encoder\.down_blocks\.(\d+)\.resnets\.", r"encoder.down.\1.block.", name)
    name = re.sub(r"encoder\.down_blocks\.(\d+)\.downsamplers\.0\.", r"encoder.down.\1.downsample.", name)
    name = re.sub(r"up_blocks\.(\d+)\.resnets\.", lambda m: f"up.{levels - 1 - int(m[1])}.block.", name)
    name = re.sub(r"up_blocks\.(\d+)\.upsamplers\.0\.", lambda m: f"up.{levels - 1 - int(m[1])}.upsample.", name)
    name = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"mid.block_{int(m[1]) + 1}", name)
    for ours, theirs in (("group_norm", "norm"), ("to_q", "q"), ("to_k", "k"), ("to_v", "v"), ("to_out.0", "proj_out")):
        name = name.replace(f"mid_block.attentions.0.{ours}.", f"mid.attn_1.{theirs}.")
    return name.replace("conv_shortcut", "nin_shortcut").replace("conv_norm_out", "norm_out")


def of_open_clip(name):
    """The name, and which third of that tensor it is; None: all of it."""
    name = name.removeprefix("text_model.")
    once = {"embeddings.token_embedding.weight": "token_embedding.weight",
            "embeddings.position_embedding.weight": "positional_embedding", "final_layer_norm.weight": "ln_final.weight",
            "final_layer_norm.bias": "ln_final.bias", "text_projection.weight": "text_projection"}
    if name in once:
        return once[name], None
    number, rest = re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)", name).groups()
    layer = f"transformer.resblocks.{number}."
    third = re.fullmatch(r"self_attn\.([qkv])_proj\.(weight|bias)", rest)
    if third:
        return f"{layer}attn.in_proj_{third[2]}", "qkv".index(third[1])
    module, kind = rest.rsplit(".", 1)
    return f"{layer}{OPEN_CLIP[module]}.{kind}", None
