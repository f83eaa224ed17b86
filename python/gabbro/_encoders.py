"""Text encoders: vectors of texts and scores of documents, in the form of sentence-transformers. Names are in
gabbro.llm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _core

if TYPE_CHECKING:
    import numpy as np

__all__ = ["TextEncoder", "load_encoder"]


class TextEncoder:
    """A loaded text encoder; :func:`load_encoder` makes one.

    Attributes
    ----------
    facts : dict
        name, architecture, pooling, normalized, dimensions, most_tokens, labels, prompts, default_prompt, device ...
    """

    def __init__(self, model: _core._TextEncoder) -> None:
        self._model = model
        self.facts: dict[str, Any] = model.facts()

    def __repr__(self) -> str:
        f = self.facts
        return f"<TextEncoder {f['name']}: {f['architecture']}, {f['dimensions']} dimensions on {f['device']}>"

    @property
    def max_seq_length(self) -> int:
        """Tokens that a text may have."""
        return int(self.facts["most_tokens"])

    def get_sentence_embedding_dimension(self) -> int:
        return int(self.facts["dimensions"])

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        normalize_embeddings: bool | None = None,
        truncate_dim: int | None = None,
        pooling: str | None = None,
        truncate: bool = True,
    ) -> np.ndarray:
        """Vectors of texts.

        Parameters
        ----------
        sentences : str or list of str
        prompt_name : str
            The name of a prompt in the model's files, put before each text; None: their default prompt, if any.
        prompt : str
            A text that stands before each, in place of these.
        batch_size : int
            Texts that are computed together. It does not change the vectors but by rounding.
        normalize_embeddings : bool
            Make the vectors' length 1; None: as the model's files say, else True.
        truncate_dim : int
            The first numbers of each vector (Matryoshka).
        pooling : 'mean', 'cls', 'last' or 'max'
            How the tokens' states become one vector, in place of the model's own choice.
        truncate : bool
            Cut texts that are too long; False refuses them.

        Returns
        -------
        numpy.ndarray
            f32 [dimensions] of one text, [texts, dimensions] of a list.

        Raises
        ------
        ValueError
            If there is no prompt of that name, a text is too long, or an option is out of range.
        """
        single = isinstance(sentences, str)
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        if prompt is None:
            prompt = self._prompt(prompt_name)
        rows = self._model.embed(
            texts, pooling or "", normalize_embeddings, prompt, truncate_dim or 0, batch_size, truncate
        )
        vectors: Any = rows.numpy()
        result: np.ndarray = vectors[0] if single else vectors
        return result

    def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        top_k: int | None = None,
        batch_size: int = 32,
        raw_scores: bool = False,
        truncate: bool = True,
    ) -> list[dict[str, Any]]:
        """Documents in the order of how well they answer a query, the best first.

        Parameters
        ----------
        query : str
        documents : list of str
        top_k : int
            Only the best.
        batch_size : int
        raw_scores : bool
            The classifier's logits, without the sigmoid.
        truncate : bool
            Cut pairs that are too long; False refuses them.

        Returns
        -------
        list of {'corpus_id': index, 'score': number, 'text': document}

        Raises
        ------
        ValueError
            If the model has no classifier with one label.
        """
        scores = self._model.rerank(query, list(documents), raw_scores, batch_size, truncate)
        order = sorted(range(len(scores)), key=lambda i: -scores[i])[:top_k]
        return [{"corpus_id": i, "score": scores[i], "text": documents[i]} for i in order]

    def _prompt(self, name: str | None) -> str:
        name = name or self.facts["default_prompt"]
        if not name:
            return ""
        prompts: dict[str, str] = self.facts["prompts"]
        if name not in prompts:
            raise ValueError(f"[encode] the model has no prompt '{name}'; there are {', '.join(prompts) or 'none'}")
        return prompts[name]


def load_encoder(model: str, *, device: str = "auto", threads: int = 0) -> TextEncoder:
    """Loads a text encoder: a model for embeddings, or a reranker.

    Parameters
    ----------
    model : str
        A GGUF file, a folder of safetensors with or without the files of sentence-transformers, or a name that
        ``gabbro list`` shows.
    device : str
        'auto' (a usable GPU, else the CPU), 'cpu', 'rocm', 'cuda:0', ...
    threads : int
        Of the CPU; 0: one for each physical core.

    Raises
    ------
    ValueError
        If the files are not an encoder that runs here; the message names the reason.
    DeviceError
        If the device is missing or has too little memory.

    Examples
    --------
    >>> model = gb.llm.load_encoder("bge-small-en-v1.5")  # doctest: +SKIP
    >>> vectors = model.encode(["A rock.", "The sea."])  # doctest: +SKIP
    >>> vectors @ vectors.T  # doctest: +SKIP
    """
    return TextEncoder(_core._TextEncoder.load(str(model), device, threads))
