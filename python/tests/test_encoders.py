"""gabbro.llm.load_encoder: vectors and scores of the fixtures' encoders against transformers."""

import json
from pathlib import Path

import numpy as np
import pytest

import gabbro as gb

ENCODERS = Path(__file__).resolve().parents[2] / "tests" / "data" / "encoders"


def test_vectors_are_those_of_transformers():
    expected = json.loads((ENCODERS / "bert" / "texts.json").read_text())
    model = gb.llm.load_encoder(ENCODERS / "bert", device="cpu")
    vectors = model.encode(expected["texts"])
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(expected["texts"]), model.get_sentence_embedding_dimension())
    assert (vectors * np.array(expected["vectors"])).sum(axis=1).min() > 1 - 1e-4  # weights in bf16
    one = model.encode(expected["texts"][0], normalize_embeddings=False)
    assert one.shape == (32,)
    assert abs(np.linalg.norm(one) - 1) > 1e-2
    assert model.encode(expected["texts"], truncate_dim=8).shape == (len(expected["texts"]), 8)
    assert model.encode([]).shape == (0, 32)


def test_scores_are_those_of_transformers():
    expected = json.loads((ENCODERS / "bert_rerank" / "texts.json").read_text())
    model = gb.llm.load_encoder(ENCODERS / "bert_rerank", device="cpu")
    ranked = model.rerank(expected["query"], expected["documents"])
    assert [each["score"] for each in ranked] == sorted((each["score"] for each in ranked), reverse=True)
    for each in ranked:
        assert each["score"] == pytest.approx(expected["scores"][each["corpus_id"]], abs=1e-2)
    assert model.rerank(expected["query"], expected["documents"], top_k=1) == ranked[:1]


def test_what_is_refused():
    model = gb.llm.load_encoder(ENCODERS / "bert", device="cpu")
    assert model.encode("a " * 200).shape == (32,)
    with pytest.raises(ValueError, match="text 1 has"):
        model.encode("a " * 200, truncate=False)
    with pytest.raises(ValueError, match="no prompt 'query'"):
        model.encode("a", prompt_name="query")
    with pytest.raises(ValueError, match="not a reranker"):
        model.rerank("a", ["b"])
    with pytest.raises(ValueError, match="not supported"):
        gb.llm.load_encoder(ENCODERS.parent / "families" / "llama", device="cpu")
