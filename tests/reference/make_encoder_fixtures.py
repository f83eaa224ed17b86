#!/usr/bin/env python3
"""Writes tests/data/encoders: a tiny random encoder of each family as transformers saves it, and what it computes.

A folder has config.json and model.safetensors (bf16), the files of sentence-transformers where the row has some, and
expected.safetensors: `ids` i32 [T] of all texts in sequence, `lengths` i32 [B], `types` i32 [T] where the model
has types, `states` f32 [T, C], `pooled` f32 [B, P], which is not normalized, and `scores` f32 [B, labels] of a
classifier, all of texts that are computed one by one in float32. Of T5 also `decoder_ids` i32 [T] and their `logits` f32 [T, V]
for the first text, and `answer` i32 [ANSWER], the greedy tokens of transformers' generate for it. bert, bert_rerank and qwen3_reranker also have a tokenizer.json, and texts.json
with what transformers makes of texts: their normalized means, or the sigmoids of the scores of pairs. Needs torch,
tokenizers and transformers.

Jina's BERT has no class in transformers: JinaBert below follows its description (Günther et al. 2023, section 3: BERT
with ALiBi in both directions, Press et al. 2022, and a GEGLU feed-forward block, Shazeer 2020), with the names of the
published weights. So has Nomic's mixture of experts: NomicMoe below. NomicBert is transformers', saved once with its names and once with the published weights'.
Usage: make_encoder_fixtures.py [NAME...]
"""
import json
import math
import pathlib
import shutil
import sys
import zlib

import tokenizers
import torch
import transformers
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "encoders"
VOCABULARY = 96
ANSWER = 70  # tokens: more than the decoder makes room for at first
LENGTHS = (9, 21, 1, 14, 21)
COMMON = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
              max_position_embeddings=64, type_vocab_size=2)
CLASSIFIER = dict(num_labels=1)

# Name, model class, configuration class, what differs from COMMON (None removes a field), and pooling.
FAMILIES = {
    "bert": ("BertModel", "BertConfig", {}, "mean"),
    "bert_rerank": ("BertForSequenceClassification", "BertConfig", CLASSIFIER, "rank"),
    "roberta": ("RobertaModel", "RobertaConfig", dict(type_vocab_size=1, pad_token_id=1), "cls"),
    "roberta_rerank": ("RobertaForSequenceClassification", "RobertaConfig",
                       dict(type_vocab_size=1, pad_token_id=1, **CLASSIFIER), "rank"),
    "xlm_roberta": ("XLMRobertaModel", "XLMRobertaConfig", dict(type_vocab_size=1, pad_token_id=1), "mean"),
    "modernbert": ("ModernBertModel", "ModernBertConfig",
                   dict(type_vocab_size=None, local_attention=8, num_hidden_layers=5, pad_token_id=0, bos_token_id=1,
                        eos_token_id=2, cls_token_id=1, sep_token_id=2), "mean"),
    "modernbert_rerank": ("ModernBertForSequenceClassification", "ModernBertConfig",
                          dict(type_vocab_size=None, local_attention=8, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                               cls_token_id=1, sep_token_id=2, classifier_pooling="mean", **CLASSIFIER), "rank"),
    "nomic_bert": ("NomicBertModel", "NomicBertConfig", {}, "mean"),
    "nomic_bert_published": ("NomicBertModel", "NomicBertConfig", {}, "mean"),
    "nomic_bert_moe": ("NomicMoe", "NomicBertConfig", {}, "mean"),
    "jina_bert": ("JinaBert", "BertConfig", dict(position_embedding_type="alibi", feed_forward_type="geglu",
                                                 num_attention_heads=6, hidden_size=48), "mean"),
    "distilbert": ("DistilBertModel", "DistilBertConfig",
                   dict(dim=32, hidden_dim=48, n_layers=3, n_heads=4, hidden_size=None, intermediate_size=None,
                        num_hidden_layers=None, num_attention_heads=None, type_vocab_size=None), "cls"),
    "mpnet": ("MPNetModel", "MPNetConfig", dict(type_vocab_size=None), "max"),
    "qwen3_embedding": ("Qwen3Model", "Qwen3Config",
                        dict(type_vocab_size=None, num_key_value_heads=2, head_dim=16), "last"),
    "qwen3_reranker": ("Qwen3ForCausalLM", "Qwen3Config",
                       dict(type_vocab_size=None, num_key_value_heads=2, head_dim=16, max_position_embeddings=128,
                            tie_word_embeddings=True), "last"),
    "t5": ("T5ForConditionalGeneration", "T5Config",
           dict(d_model=32, d_kv=8, d_ff=48, num_layers=3, num_heads=4, relative_attention_num_buckets=8,
                relative_attention_max_distance=16, hidden_size=None, intermediate_size=None, num_hidden_layers=None,
                num_attention_heads=None, max_position_embeddings=None, type_vocab_size=None), "mean"),
    "t5_gated": ("T5ForConditionalGeneration", "T5Config",
                 dict(d_model=32, d_kv=16, d_ff=48, num_layers=3, num_heads=4, feed_forward_proj="gated-gelu",
                      tie_word_embeddings=False, num_decoder_layers=2,
                      hidden_size=None, intermediate_size=None, num_hidden_layers=None, num_attention_heads=None,
                      max_position_embeddings=None, type_vocab_size=None), "mean"),
    "clip_text": ("CLIPTextModelWithProjection", "CLIPTextConfig",
                  dict(type_vocab_size=None, projection_dim=24, bos_token_id=1, eos_token_id=VOCABULARY - 1), "eos"),
}

# sentence-transformers' files of some folders.
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
DENSE = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
NORMALIZE = {"idx": 3, "name": "3", "path": "3_Normalize", "type": "sentence_transformers.models.Normalize"}


class JinaBert(torch.nn.Module):
    """Jina's BERT with the names of its published weights."""

    def __init__(self, config):
        super().__init__()
        self.config, c, f = config, config.hidden_size, config.intermediate_size

        def norm():
            return torch.nn.LayerNorm(c, eps=config.layer_norm_eps)

        self.embeddings = torch.nn.ModuleDict({"word_embeddings": torch.nn.Embedding(config.vocab_size, c),
                                               "token_type_embeddings": torch.nn.Embedding(2, c), "LayerNorm": norm()})

        def layer():
            attention = torch.nn.ModuleDict({
                "self": torch.nn.ModuleDict({name: torch.nn.Linear(c, c) for name in ("query", "key", "value")}),
                "output": torch.nn.ModuleDict({"dense": torch.nn.Linear(c, c), "LayerNorm": norm()})})
            mlp = torch.nn.ModuleDict({"gated_layers": torch.nn.Linear(c, 2 * f, bias=False),
                                       "wo": torch.nn.Linear(f, c), "layernorm": norm()})
            return torch.nn.ModuleDict({"attention": attention, "mlp": mlp})

        layers = torch.nn.ModuleList(layer() for _ in range(config.num_hidden_layers))
        self.encoder = torch.nn.ModuleDict({"layer": layers})

    @staticmethod
    def slopes(heads):
        """Press et al. 2022: a geometric sequence; if heads are not a power of 2, also every other one of the next."""
        def of_power(n):
            return [2 ** (-8 * (i + 1) / n) for i in range(n)]
        power = 2 ** math.floor(math.log2(heads))
        return torch.tensor(of_power(power) + of_power(2 * power)[0::2][:heads - power])

    def forward(self, input_ids, token_type_ids):
        e, heads = self.embeddings, self.config.num_attention_heads
        x = e["LayerNorm"](e["word_embeddings"](input_ids) + e["token_type_embeddings"](token_type_ids))[0]
        t, c = x.shape
        positions = torch.arange(t)
        bias = -self.slopes(heads)[:, None, None] * (positions[None, :] - positions[:, None]).abs()
        for layer in self.encoder["layer"]:
            a = layer["attention"]
            q, k, v = (a["self"][name](x).view(t, heads, c // heads).transpose(0, 1)
                       for name in ("query", "key", "value"))
            weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(c // heads) + bias, dim=-1)
            x = a["output"]["LayerNorm"](a["output"]["dense"]((weights @ v).transpose(0, 1).reshape(t, c)) + x)
            gate, up = layer["mlp"]["gated_layers"](x).chunk(2, dim=-1)
            x = layer["mlp"]["layernorm"](layer["mlp"]["wo"](torch.nn.functional.gelu(gate) * up) + x)
        return x[None]


class NomicMoe(torch.nn.Module):
    """Nomic's second encoder with the names of its published weights: BERT with rotary positions, and experts in every
    other layer. A token has the two that a softmax over all likes best, weighted by it, and a bias."""

    EXPERTS, USED, BASE = 4, 2, 10000.0

    def __init__(self, config):
        super().__init__()
        self.config, c, f = config, config.hidden_size, config.intermediate_size

        def norm():
            return torch.nn.LayerNorm(c, eps=1e-5)

        self.embeddings = torch.nn.ModuleDict({"word_embeddings": torch.nn.Embedding(config.vocab_size, c),
                                               "token_type_embeddings": torch.nn.Embedding(2, c)})
        self.emb_ln = norm()

        def block(mixed):
            if not mixed:
                return torch.nn.ModuleDict({"fc1": torch.nn.Linear(c, f), "fc2": torch.nn.Linear(f, c)})
            experts = torch.nn.Module()
            experts.mlp = torch.nn.Module()
            experts.mlp.w1 = torch.nn.Parameter(torch.zeros(self.EXPERTS * f, c))
            experts.mlp.w2 = torch.nn.Parameter(torch.zeros(self.EXPERTS * f, c))
            experts.bias = torch.nn.Parameter(torch.zeros(c))
            router = torch.nn.ModuleDict({"layer": torch.nn.Linear(c, self.EXPERTS, bias=False)})
            return torch.nn.ModuleDict({"router": router, "experts": experts})

        def layer(index):
            attention = torch.nn.ModuleDict({"Wqkv": torch.nn.Linear(c, 3 * c), "out_proj": torch.nn.Linear(c, c)})
            return torch.nn.ModuleDict({"attn": attention, "mlp": block(index % 2 == 1), "norm1": norm(),
                                        "norm2": norm()})

        layers = torch.nn.ModuleList(layer(i) for i in range(config.num_hidden_layers))
        self.encoder = torch.nn.ModuleDict({"layers": layers})

    def rotated(self, x):  # [H, T, D]
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[1])[:, None] * self.BASE ** (-torch.arange(half) / half)
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)

    def feed_forward(self, mlp, x):
        gelu = torch.nn.functional.gelu
        if "fc1" in mlp:
            return mlp["fc2"](gelu(mlp["fc1"](x)))
        experts, c = mlp["experts"], x.shape[-1]
        up, down = (w.view(self.EXPERTS, -1, c) for w in (experts.mlp.w1, experts.mlp.w2))
        best = torch.softmax(mlp["router"]["layer"](x), dim=-1).topk(self.USED)
        rows = [sum(weight * (gelu(up[e] @ row) @ down[e]) for weight, e in zip(weights, chosen))
                for row, weights, chosen in zip(x, best.values, best.indices)]
        return torch.stack(rows) + experts.bias

    def forward(self, input_ids, token_type_ids):
        e, heads = self.embeddings, self.config.num_attention_heads
        x = self.emb_ln(e["word_embeddings"](input_ids) + e["token_type_embeddings"](token_type_ids))[0]
        t, c = x.shape
        for layer in self.encoder["layers"]:
            q, k, v = (part.view(t, heads, c // heads).transpose(0, 1) for part in layer["attn"]["Wqkv"](x).chunk(3, -1))
            weights = torch.softmax(self.rotated(q) @ self.rotated(k).transpose(1, 2) / math.sqrt(c // heads), dim=-1)
            x = layer["norm1"](layer["attn"]["out_proj"]((weights @ v).transpose(0, 1).reshape(t, c)) + x)
            x = layer["norm2"](self.feed_forward(layer["mlp"], x) + x)
        return x[None]


def randomize(model, seed):
    """Weights that make every part count: matrices that keep the size of activations, norms and biases off neutral."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.named_parameters():
        noise = torch.randn(value.shape, generator=generator)
        if value.ndim >= 2 and "embed" not in name and "shared" not in name and "relative_attention_bias" not in name:
            noise *= value.shape[-1] ** -0.5
        elif value.ndim == 1:
            noise = value.data.mean().round() + 0.2 * noise
        value.data.copy_(noise.to(torch.bfloat16).to(torch.float32))


def published_nomic(weights):
    """The names and fused matrices of the published weights."""
    names = {"embeddings.LayerNorm": "emb_ln", "post_attention_layernorm": "norm1", "post_mlp_layernorm": "norm2",
             "self_attn.o_proj": "attn.out_proj", "mlp.up_proj": "mlp.fc11", "mlp.gate_proj": "mlp.fc12",
             "mlp.down_proj": "mlp.fc2"}
    out = {}
    for name, value in weights.items():
        if "_proj" in name and any(f"self_attn.{part}_proj" in name for part in "kv"):
            continue
        if "self_attn.q_proj" in name:
            value = torch.cat([weights[name.replace("q_proj", f"{part}_proj")] for part in "qkv"])
            name = name.replace("self_attn.q_proj", "attn.Wqkv")
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        out[name.replace("layers.", "encoder.layers.") if name.startswith("layers.") else name] = value
    return out


def published_nomic_config():
    return dict(model_type="nomic_bert", architectures=["NomicBertModel"], vocab_size=VOCABULARY, n_embd=32, n_inner=48,
                n_layer=3, n_head=4, n_positions=64, type_vocab_size=2, layer_norm_epsilon=1e-12,
                activation_function="swiglu", rotary_emb_base=1000, rotary_emb_fraction=1.0,
                rotary_emb_interleaved=False, prenorm=False, qkv_proj_bias=False)


def nomic_moe_config():
    return dict(published_nomic_config(), activation_function="gelu", layer_norm_epsilon=1e-5, rotary_emb_base=10000,
                qkv_proj_bias=True, moe_every_n_layers=2, num_experts=NomicMoe.EXPERTS, moe_top_k=NomicMoe.USED,
                moe_normalize_expert_weights=False)


def states_of(model, ids, types):
    """[T, C] of one text, and the logits [labels] of a classifier."""
    inputs = dict(input_ids=ids[None])
    if types is not None:
        inputs["token_type_ids"] = types[None]
    if isinstance(model, (JinaBert, NomicMoe)):
        return model(**inputs)[0], None, None
    if hasattr(model, "lm_head") and not hasattr(model, "decoder"):
        return model.model(**inputs).last_hidden_state[0], None, None
    if hasattr(model, "decoder"):
        return model.encoder(**inputs).last_hidden_state[0], None, None
    out = model(**inputs, **({"output_hidden_states": True} if hasattr(model, "classifier") else {}))
    if hasattr(out, "logits"):
        states = out.hidden_states[-1][0]
        if hasattr(model, "model"):  # ModernBERT's last states are before its final norm
            states = model.model(**inputs).last_hidden_state[0]
        return states, out.logits[0], None
    return out.last_hidden_state[0], None, getattr(out, "text_embeds", None)


def pooled_of(states, pooling):
    if pooling == "mean":
        return states.mean(0)
    if pooling == "max":
        return states.max(0).values
    return states[-1 if pooling == "last" else 0]


def write_modules(folder, pooling, name, seed):
    """Files of sentence-transformers; the dense module's function of a pooled vector, or None."""
    modules, dense = list(MODULES), None
    modes = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens",
             "last": "pooling_mode_lasttoken"}
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(
        {"word_embedding_dimension": 32, **{mode: key == pooling for key, mode in modes.items()}}, indent=1) + "\n")
    if name == "mpnet":
        generator = torch.Generator().manual_seed(seed + 2)
        weight, bias = (torch.randn(shape, generator=generator).to(torch.bfloat16) * 0.25
                        for shape in ((24, 32), (24,)))
        (folder / "2_Dense").mkdir()
        (folder / "2_Dense" / "config.json").write_text(json.dumps(
            {"in_features": 32, "out_features": 24, "bias": True,
             "activation_function": "torch.nn.modules.activation.Tanh"}, indent=1) + "\n")
        save_file({"linear.weight": weight, "linear.bias": bias}, folder / "2_Dense" / "model.safetensors")
        modules.append(DENSE)
        dense = lambda x: torch.tanh(torch.nn.functional.linear(x, weight.float(), bias.float()))  # noqa: E731
    if name == "roberta":
        modules.append(NORMALIZE)
    (folder / "modules.json").write_text(json.dumps(modules, indent=1) + "\n")
    return dense


TEXTS = ["Basalt is a dark rock.", "gabbro", "The sea is deep, and cold!", "", "a b c d e f g h i j k l m n o p q r s"]


def word_pieces():
    """A tokenizer of 96 tokens, as BERT has it."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    words = ["is", "the", "rock", "sea", "##ed", "##ing", "gab", "##bro", "basalt", "deep", "and", "dark"]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "!", "?", *letters, *("##" + c for c in letters),
              *words]
    tokens += [f"[unused{i}]" for i in range(VOCABULARY - len(tokens))]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(
        {token: i for i, token in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.add_special_tokens(tokens[:5])
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    return tokenizer


# Qwen 3 Reranker's prompt, by its model card.
BEFORE = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
          "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n")
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
PAIR = ("<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
        "<Query>: {}\n<Document>: {}")


def write_answers(folder, model):
    """A tokenizer of words, and the scores of Qwen 3 Reranker: softmax of the logits of "yes" and "no"."""
    control = ["<|im_start|>", "<|im_end|>", "<think>", "</think>"]
    words = ["[UNK]", *control, "yes", "no", "system", "user", "assistant", "Judge", "Document", "Query", "Instruct",
             "the", "rock", "sea", "dark", "deep", "basalt", "is", "a", "gabbro", ".", ",", "<", ">", ":", "query",
             "answer"]
    words += [f"word{i}" for i in range(VOCABULARY - len(words))]
    model_of_words = tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model_of_words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(control)
    query, documents = "the dark rock", ["basalt is a dark rock.", "the sea is deep", "", "gabbro"]
    yes, no = words.index("yes"), words.index("no")
    scores = []
    for document in documents:
        ids = [i for part in (BEFORE, PAIR.format(query, document), AFTER) for i in tokenizer.encode(part).ids]
        with torch.no_grad():
            logits = model(torch.tensor(ids)[None]).logits[0, -1]
        scores.append(torch.softmax(logits[[yes, no]], dim=0)[0].item())
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n")
    (folder / "texts.json").write_text(json.dumps({"query": query, "documents": documents, "scores": scores}) + "\n")


def write_texts(folder, model):
    """The tokenizer, and what transformers gives for padded batches of texts, or of pairs of a query with each."""
    tokenizer = word_pieces()
    pairs = hasattr(model, "classifier")
    encoded = tokenizer.encode_batch([(TEXTS[0], text) for text in TEXTS] if pairs else TEXTS)
    inputs = {key: torch.tensor([getattr(each, ours) for each in encoded]) for key, ours in
              (("input_ids", "ids"), ("token_type_ids", "type_ids"), ("attention_mask", "attention_mask"))}
    with torch.no_grad():
        out = model(**inputs)
    if pairs:
        expected = {"query": TEXTS[0], "documents": TEXTS, "scores": torch.sigmoid(out.logits[:, 0]).tolist()}
    else:
        mask = inputs["attention_mask"][:, :, None].float()
        means = (out.last_hidden_state * mask).sum(1) / mask.sum(1)
        expected = {"texts": TEXTS, "vectors": torch.nn.functional.normalize(means).tolist()}
    tokenizer.no_padding()
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n")
    (folder / "texts.json").write_text(json.dumps(expected) + "\n")


def write(name, seed):
    class_name, config_name, fields, pooling = FAMILIES[name]
    config = getattr(transformers, config_name)(
        **{key: value for key, value in {**COMMON, **fields}.items() if value is not None})
    config._attn_implementation = "eager"
    if "tie_word_embeddings" in fields:  # T5's class takes it for the scale alone
        config.tie_word_embeddings = fields["tie_word_embeddings"]
    own = {"JinaBert": JinaBert, "NomicMoe": NomicMoe}.get(class_name)
    model = (own or getattr(transformers, class_name))(config).eval()
    if hasattr(model, "decoder"):
        model.set_input_embeddings(model.shared)  # of both, also where the head is separate
    randomize(model, seed)
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    generator = torch.Generator().manual_seed(seed + 1)
    has_types = (COMMON | fields).get("type_vocab_size") == 2
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    dense = write_modules(folder, pooling, name, seed) if name in ("roberta", "distilbert", "mpnet") else None
    if name in ("bert", "bert_rerank"):
        write_texts(folder, model)
    if name == "qwen3_reranker":
        write_answers(folder, model)
    ids, types, states, pooled, scores = [], [], [], [], []
    for length in LENGTHS:
        text = torch.randint(3, VOCABULARY - 1, (length,), generator=generator)
        if class_name.startswith("CLIP"):
            text[-1] = VOCABULARY - 1
        of_second = (torch.arange(length) >= length // 2).long() if has_types else None
        with torch.no_grad():
            x, logits, projected = states_of(model, text, of_second)
        ids.append(text)
        types.append(of_second)
        states.append(x)
        scores.append(logits)
        vector = projected[0] if projected is not None else pooled_of(x, pooling)
        pooled.append(dense(vector) if dense else vector)
    expected = {"ids": torch.cat(ids).to(torch.int32), "lengths": torch.tensor(LENGTHS, dtype=torch.int32),
                "states": torch.cat(states), "pooled": torch.stack(pooled)}
    if has_types:
        expected["types"] = torch.cat(types).to(torch.int32)
    if hasattr(model, "decoder"):
        decoder_ids = torch.cat([torch.tensor([0]), torch.randint(3, VOCABULARY, (11,), generator=generator)])
        with torch.no_grad():
            logits = model(input_ids=ids[0][None], decoder_input_ids=decoder_ids[None]).logits[0]
            answer = model.generate(ids[0][None], do_sample=False, num_beams=1, max_new_tokens=ANSWER,
                                    decoder_start_token_id=0, eos_token_id=-1)
        expected |= {"decoder_ids": decoder_ids.to(torch.int32), "logits": logits,
                     "answer": answer[0, 1:].to(torch.int32)}
    if pooling == "rank":
        expected["scores"] = torch.stack(scores)
    save_file(expected, folder / "expected.safetensors")

    weights = {key: value.to(torch.bfloat16).contiguous() for key, value in model.state_dict().items()
               if not key.endswith(("position_ids", "coder.embed_tokens.weight"))}
    if getattr(config, "tie_word_embeddings", False):
        weights.pop("lm_head.weight", None)
    settings = {**config.to_dict(), "architectures": [class_name]}
    if name == "nomic_bert_published":
        weights, settings = published_nomic(weights), published_nomic_config()
    if class_name == "NomicMoe":
        settings = nomic_moe_config()
    if class_name == "JinaBert":
        settings["architectures"] = ["JinaBertModel"]
    settings.pop("transformers_version", None)
    (folder / "config.json").write_text(json.dumps(settings, indent=1) + "\n")
    save_file(weights, folder / "model.safetensors")
    print(f"{name}: {sum(f.stat().st_size for f in folder.rglob('*') if f.is_file()) / 1e3:.0f} KB, "
          f"states up to {expected['states'].abs().max():.1f}, {len(weights)} tensors")


def main():
    for name in sys.argv[1:] or list(FAMILIES):
        # Both folders of Nomic's model hold the same weights.
        write(name, seed=zlib.crc32(name.removesuffix("_published").encode()))


if __name__ == "__main__":
    main()
