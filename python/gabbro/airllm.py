"""``AutoModel`` with the names and arguments of AirLLM's: its scripts run with the import changed.

>>> model = gb.AutoModel.from_pretrained("model.gguf")  # doctest: +SKIP
>>> tokens = model.tokenizer(["What is the capital of France?"], return_tensors="np")  # doctest: +SKIP
>>> output = model.generate(tokens["input_ids"].cuda(), max_new_tokens=20,
...                         return_dict_in_generate=True)  # doctest: +SKIP
>>> model.tokenizer.decode(output.sequences[0])  # doctest: +SKIP
'What is the capital of France? Paris.'
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _core, llm

__all__ = ["AutoModel"]

_BITS = {"4bit": 5.0, "8bit": 9.0}  # at most, of a weight with its scales


class _Ids(list[Any]):
    """Token ids [batch, tokens] with the methods of tensors that scripts call on them."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), len(self[0])) if self and isinstance(self[0], list) else (len(self),)

    def cuda(self, *_: Any, **__: Any) -> _Ids:
        return self

    to = cpu = cuda

    def tolist(self) -> list[Any]:
        return [each.tolist() if isinstance(each, _Ids) else each for each in self]


class _Tokens(dict[str, Any]):
    """What a tokenizer returns: a dictionary whose entries are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def to(self, *_: Any, **__: Any) -> _Tokens:
        return self


class _Tokenizer(llm.Tokenizer):
    """With the arguments of transformers' tokenizers that AirLLM's examples use."""

    pad_token: str | None = None  # scripts set it; batches are not padded here

    def __call__(  # type: ignore[override]
        self, text: str | Sequence[str], return_tensors: str | None = None, return_attention_mask: bool = True,
        truncation: bool = False, max_length: int | None = None, padding: Any = False, add_special_tokens: bool = True,
    ) -> _Tokens:
        texts = [text] if isinstance(text, str) else list(text)
        rows = [_Ids(self.encode(each, add_special_tokens)) for each in texts]
        if truncation and max_length is not None:
            rows = [_Ids(row[:max_length]) for row in rows]
        nested = return_tensors is not None or not isinstance(text, str)
        tokens = _Tokens(input_ids=_Ids(rows) if nested else rows[0])
        if return_attention_mask:
            masks = [_Ids([1] * len(row)) for row in rows]
            tokens["attention_mask"] = _Ids(masks) if nested else masks[0]
        return tokens

    def decode(self, token_ids: Any, skip_special_tokens: bool = False) -> str:
        return super().decode(_listed(token_ids), skip_special_tokens)


@dataclass(frozen=True)
class GenerateOutput:
    """``sequences``: prompt and answer of each prompt, as token ids."""

    sequences: Any


class AutoModel:
    """A language model of any size, with the names of AirLLM; :meth:`from_pretrained` loads one.

    >>> model = gb.AutoModel.from_pretrained("model.gguf", max_seq_len=128)  # doctest: +SKIP
    >>> ids = model.tokenizer("Hello", return_tensors="np")["input_ids"]  # doctest: +SKIP
    >>> model.tokenizer.decode(model.generate(ids, max_new_tokens=5)[0])  # doctest: +SKIP
    'Hello! How can I help'
    """

    def __init__(self, model: llm.LanguageModel, profiling_mode: bool) -> None:
        self._model = model
        self._profiling = profiling_mode
        self.tokenizer = _Tokenizer(model._model)
        self.facts = model.facts

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | os.PathLike[str],
        device: str = "auto",
        dtype: Any = None,
        max_seq_len: int = 512,
        layer_shards_saving_path: str | None = None,
        profiling_mode: bool = False,
        compression: str | None = None,
        hf_token: str | None = None,
        prefetching: bool = True,
        delete_original: bool = False,
        memory: int | None = None,
        host_memory: int = 0,
    ) -> AutoModel:
        """Loads a model, and streams the weights that do not fit.

        Parameters
        ----------
        pretrained_model_name_or_path : str
            A GGUF file, a folder or file of safetensors, or a name that ``gabbro list`` shows.
        device : str
            'cuda', 'cuda:0', 'hip', 'rocm': the GPU that is there, of any vendor, else the CPU. 'cpu', 'auto'.
        dtype, prefetching, layer_shards_saving_path, delete_original
            For scripts written for AirLLM: weights keep the format of their file, reading ahead is always on, and
            nothing is written or deleted.
        max_seq_len : int
            Tokens of a prompt with its answer.
        profiling_mode : bool
            Each generation prints what its passes over the weights took.
        compression : None, '4bit' or '8bit'
            The file has to have a format of that many bits: ``gabbro convert`` makes one.
        hf_token : str
            Not used: models are fetched by ``gabbro pull``.
        memory : int
            Bytes that the model may take on the device; None: nine tenths of what is free there.
        host_memory : int
            Bytes of host memory for weights that are streamed to a GPU.

        Raises
        ------
        ValueError
            If the files are not a model that runs here, or do not have the format of ``compression``.
        DeviceError
            If there is too little memory; the message names the least.
        """
        del dtype, layer_shards_saving_path, hf_token, prefetching, delete_original
        if compression not in (None, *_BITS):
            raise ValueError(f"[from_pretrained] compression is '{compression}', expected None, '4bit' or '8bit'")
        chosen = _device(device)
        limit = -1 if memory is None else int(memory)
        model = llm.load(os.fspath(pretrained_model_name_or_path), device=chosen, context=max_seq_len, memory=limit,
                         host_memory=host_memory)
        bits = 8 * model.facts["weight_bytes"] / model.facts["parameters"]
        if compression is not None and bits > _BITS[compression]:
            raise ValueError(
                f"[from_pretrained] compression='{compression}': the weights have {bits:.1f} bits each; "
                f"'gabbro convert MODEL -o FILE --type {'q4_k_m' if compression == '4bit' else 'q8_0'}' makes a file")
        return cls(model, profiling_mode)

    def generate(
        self, input_ids: Any, max_new_tokens: int = 20, use_cache: bool = True, return_dict_in_generate: bool = False,
        streamer: Any = None, do_sample: bool = False, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0,
        repetition_penalty: float = 1.0, seed: int = 0, **unused: Any,
    ) -> Any:
        """Continues each of the prompts [batch, tokens], which share the passes over the weights.

        Parameters
        ----------
        input_ids : ids of the tokens, of lists, a tensor or an array
        max_new_tokens : int
        return_dict_in_generate : bool
            Returns an object whose ``sequences`` are prompts and answers, else these themselves.
        streamer : object with put(ids) and end(), as transformers has it
        do_sample, temperature, top_k, top_p, repetition_penalty, seed
            Sampling; without ``do_sample`` the most likely token, always.
        use_cache
            Keys and values are always kept.
        """
        if unused.keys() - {"attention_mask", "pad_token_id", "eos_token_id"}:
            raise TypeError(f"[generate] unknown option '{sorted(unused)[0]}'")
        prompts = _listed(input_ids)
        prompts = [prompts] if prompts and isinstance(prompts[0], int) else prompts
        options = {"max_tokens": max_new_tokens, "temperature": temperature if do_sample else 0.0, "top_k": top_k,
                   "top_p": top_p, "min_p": 0.0, "repeat_penalty": repetition_penalty, "seed": seed}
        if streamer is None:
            answers = [result.token_ids for result in self._model.generate(prompts, **options)]
        else:
            answers = [self._streamed(prompt, streamer, options) for prompt in prompts]
        if self._profiling:
            self._print_profile()
        sequences = _Ids(_Ids([*prompt, *answer]) for prompt, answer in zip(prompts, answers, strict=True))
        return GenerateOutput(sequences) if return_dict_in_generate else sequences

    __call__ = generate

    def _streamed(self, prompt: list[int], streamer: Any, options: dict[str, Any]) -> list[int]:
        streamer.put(_Ids([_Ids(prompt)]))
        answer: list[int] = []
        for piece in self._model.stream(prompt, **options):
            ids = self.tokenizer.encode(piece, add_special_tokens=False)
            answer.extend(ids)
            for token in ids:
                streamer.put(_Ids([token]))
        streamer.end()
        return answer

    def _print_profile(self) -> None:
        s = self._model.streaming()
        if not s:
            print("all weights stay on the device: nothing is loaded while generating", file=sys.stderr)
            return
        passes = max(s["passes"], 1)
        print(f"passes {s['passes']}, GB per pass {s['bytes_per_pass'] / 1e9:.2f}, seconds per pass "
              f"{s['seconds'] / passes:.3f}, of them waiting for weights {s['waited_seconds'] / passes:.3f}; "
              f"{s['bytes'] / max(s['seconds'], 1e-9) / 1e9:.2f} GB/s of {s['link_bandwidth'] / 1e9:.2f} "
              f"from {s['link']}", file=sys.stderr)


def _listed(ids: Any) -> list[Any]:
    if hasattr(ids, "tolist"):
        ids = ids.tolist()
    return [each if isinstance(each, int) else _listed(each) for each in ids]


def _device(name: str) -> str:
    """The device that is meant by a name of PyTorch's."""
    vendor = str(name).partition(":")[0]
    if vendor not in ("cuda", "hip", "rocm", "gpu"):
        return str(name)
    return "gpu" if _core._usable_count("cuda") + _core._usable_count("rocm") > 0 else "cpu"
