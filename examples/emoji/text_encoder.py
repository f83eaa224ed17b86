"""The text encoder of a Stable Diffusion pipeline: CLIP's, small, with the names of transformers' files."""

from __future__ import annotations

from networks import attention

import gabbro as gb
from gabbro import nn

TOKENS = 77  # of a prompt, with padding
TEXT = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 3, "num_attention_heads": 4}


class TextAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: gb.Tensor) -> gb.Tensor:
        heads = TEXT["num_attention_heads"]
        return self.out_proj(attention(self.q_proj(x), self.k_proj(x), self.v_proj(x), heads, is_causal=True))


class TextFeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, TEXT["intermediate_size"])
        self.fc2 = nn.Linear(TEXT["intermediate_size"], width)

    def forward(self, x: gb.Tensor) -> gb.Tensor:
        x = self.fc1(x)
        return self.fc2(x * gb.sigmoid(1.702 * x))  # "quick_gelu"


class TextLayer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.self_attn = TextAttention(width)
        self.layer_norm1 = nn.LayerNorm(width)
        self.mlp = TextFeedForward(width)
        self.layer_norm2 = nn.LayerNorm(width)

    def forward(self, x: gb.Tensor) -> gb.Tensor:
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class TextEmbeddings(nn.Module):
    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(words, width)
        self.position_embedding = nn.Embedding(TOKENS, width)


class TextLayers(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([TextLayer(width) for _ in range(TEXT["num_hidden_layers"])])


class TextModel(nn.Module):
    def __init__(self, words: int) -> None:
        super().__init__()
        width = TEXT["hidden_size"]
        self.embeddings = TextEmbeddings(words, width)
        self.encoder = TextLayers(width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, ids: gb.Tensor) -> gb.Tensor:
        x = self.embeddings.token_embedding(ids) + self.embeddings.position_embedding.weight
        for layer in self.encoder.layers:
            x = layer(x)
        return self.final_layer_norm(x)


class TextEncoder(nn.Module):
    """Tokens [N, 77] to states [N, 77, C]: CLIP's text model."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.text_model = TextModel(words)

    def forward(self, ids: gb.Tensor) -> gb.Tensor:
        return self.text_model(ids)
