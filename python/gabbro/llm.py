"""Language models: loading, generating, tokens; and text encoders.

>>> model = gb.llm.load("model.gguf")  # doctest: +SKIP
>>> model.generate("The capital of France is", max_tokens=8).text  # doctest: +SKIP
' Paris.'
>>> messages = [{"role": "user", "content": "Name a color."}]
>>> for piece in model.stream(messages):  # doctest: +SKIP
...     print(piece, end="", flush=True)
Blue.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from . import _core
from ._core import Tensor
from ._encoders import TextEncoder, load_encoder

__all__ = ["Generation", "LanguageModel", "TextEncoder", "Tokenizer", "load", "load_encoder"]

Message = dict[str, str]
Prompt = str | Sequence[Message] | Sequence[int]


@dataclass(frozen=True)
class Generation:
    """A finished answer.

    Attributes
    ----------
    text : str
    token_ids : list[int]
        The generated tokens; the end token is not among them.
    prompt_tokens, cached_tokens : int
        Tokens of the prompt, and the number of them whose keys and values were cached.
    prefill_seconds, decode_seconds : float
    stop_reason : str
        'eos', 'length' (``max_tokens``), 'stop' (a text of ``stop``) or 'context' (it is full).
    """

    text: str
    token_ids: list[int]
    prompt_tokens: int
    cached_tokens: int
    prefill_seconds: float
    decode_seconds: float
    stop_reason: str

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens a second, without the prompt."""
        return len(self.token_ids) / self.decode_seconds if self.decode_seconds > 0 else 0.0

    def __str__(self) -> str:
        return self.text


class Tokenizer:
    """The tokenizer of a model, with the names of transformers."""

    def __init__(self, model: _core._LanguageModel) -> None:
        self._model = model
        self._special = model.special_tokens()

    @property
    def vocab_size(self) -> int:
        return self._model.token_count()

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def bos_token_id(self) -> int | None:
        return self._special["bos"]

    @property
    def eos_token_id(self) -> int | None:
        return self._special["eos"]

    @property
    def unk_token_id(self) -> int | None:
        return self._special["unk"]

    @property
    def pad_token_id(self) -> int | None:
        return self._special["pad"]

    def encode(self, text: str, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        """Token ids of a text.

        Parameters
        ----------
        text : str
        add_special_tokens : bool
            Begin (end) with the bos (eos) token where the model wants it.
        parse_special : bool
            Control tokens that the text spells out become those tokens; else they are plain text.
        """
        return self._model.encode(text, add_special_tokens, parse_special)

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, text: str, add_special_tokens: bool = True
    ) -> dict[str, list[int]]: ...
    @overload
    def __call__(self, text: Sequence[str], add_special_tokens: bool = True) -> dict[str, list[list[int]]]: ...
    def __call__(self, text: str | Sequence[str], add_special_tokens: bool = True) -> dict[str, Any]:
        """``{"input_ids": ids}`` of a text, or of each of several."""
        if isinstance(text, str):
            return {"input_ids": self.encode(text, add_special_tokens)}
        return {"input_ids": [self.encode(each, add_special_tokens) for each in text]}

    def decode(self, token_ids: int | Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of tokens; invalid UTF-8 becomes U+FFFD."""
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        return self._model.decode(ids, not skip_special_tokens)

    def batch_decode(self, sequences: Sequence[Sequence[int]], skip_special_tokens: bool = False) -> list[str]:
        return [self.decode(ids, skip_special_tokens) for ids in sequences]

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> str | list[str]:
        """The text of each token by itself."""
        if isinstance(ids, int):
            return self._model.piece(ids).decode(errors="replace")
        return [self._model.piece(each).decode(errors="replace") for each in ids]

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> int | list[int | None] | None:
        """Ids of tokens as the vocabulary spells them; None for one that is not in it."""
        if isinstance(tokens, str):
            return self._model.find(tokens)
        return [self._model.find(each) for each in tokens]

    def apply_chat_template(self, conversation: Sequence[Message]) -> list[int]:
        """Token ids of a conversation and of the beginning of the assistant's answer.

        Parameters
        ----------
        conversation : list of {'role': ..., 'content': ...}

        Raises
        ------
        ValueError
            If the model has no chat template, or its template refuses the conversation.
        """
        return self._model.chat(_pairs(conversation))


class LanguageModel:
    """A loaded model; :func:`load` makes one."""

    def __init__(self, model: _core._LanguageModel) -> None:
        self._model = model
        self.facts: dict[str, Any] = model.facts()
        self._tokenizer: Tokenizer | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            self._tokenizer = Tokenizer(self._model)
        return self._tokenizer

    def __repr__(self) -> str:
        f = self.facts
        return (f"<LanguageModel {f['name']}: {f['architecture']}, {f['quantization']}, "
                f"{f['parameters'] / 1e6:.0f} M parameters on {f['device']}>")

    @overload
    def generate(self, prompt: str, **options: Any) -> Generation: ...
    @overload
    def generate(self, prompt: Sequence[Message], **options: Any) -> Generation: ...
    @overload
    def generate(self, prompt: Sequence[Prompt], **options: Any) -> list[Generation]: ...
    def generate(self, prompt: Any, **options: Any) -> Generation | list[Generation]:
        """Continues a text, or answers a conversation.

        Parameters
        ----------
        prompt : str, list of messages, list of token ids, or a list of such prompts
            A text is continued without a template. Messages, ``{'role': ..., 'content': ...}``, go through the model's
            chat template. Several prompts are computed together, as many at a time as ``sequences`` of :func:`load`.
        max_tokens : int
            -1, the default: until the model stops or the context is full.
        temperature : float
            0: the most likely token, always.
        top_k, top_p, min_p, typical_p, repeat_penalty, frequency_penalty, presence_penalty, ... : number
            Further options of sampling, named as in ``gabbro run --help`` with underscores. The model's files set the
            defaults, else the command line's hold. A model of Ollama has its PARAMETERs, SYSTEM, MESSAGEs, TEMPLATE
            and ADAPTER.
        seed : int
            The same seed gives the same tokens; 0, the default: a random one.
        stop : list of str
            Texts that end the generation; they are not in the result.
        schema : dict, bool, str or a class of pydantic
            The text is JSON that is valid by this JSON Schema (as an object, or as text). A class derived from
            ``pydantic.BaseModel`` stands for its schema; ``Model.model_validate_json(answer.text)`` reads the answer.
        regex : str
            The regular expression matches the whole text.
        grammar : str
            The text obeys this grammar in GBNF, llama.cpp's language.
        choices : list of str
            The text is one of these.

        Returns
        -------
        Generation, or a list of them for several prompts

        Raises
        ------
        ValueError
            If a prompt is empty or longer than the context, an option is out of range, or a schema or grammar is wrong
            or not supported; the message names the place.
        """
        single = _is_single(prompt)
        prompts = [self._ids(prompt)] if single else [self._ids(each) for each in prompt]
        results = [Generation(**r) for r in self._model.generate(prompts, _checked(options), None, None)]
        return results[0] if single else results

    def stream(self, prompt: Prompt, **options: Any) -> Iterator[str]:
        """The same for one prompt, as an iterator over pieces of the answer's text.

        The generation ends when the iterator is closed or is not referenced any more.
        """
        ids, checked = self._ids(prompt), _checked(options)
        return self._pieces(ids, checked)

    def _pieces(self, ids: list[int], options: dict[str, Any]) -> Iterator[str]:
        pieces: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()
        cancel = _core._CancelFlag()

        def work() -> None:
            try:
                self._model.generate([ids], options, lambda _, piece: pieces.put(piece), cancel)
                pieces.put(None)
            except BaseException as error:  # raised again where the iterator is read
                pieces.put(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            cancel.cancel()
            thread.join()

    def logits(self, token_ids: Sequence[int]) -> Tensor:
        """f32 logits [tokens, vocabulary] after each of the tokens, on the CPU."""
        return self._model.logits(list(token_ids))

    @property
    def adapters(self) -> dict[str, float]:
        """The LoRA adapters that were loaded, by path, with their present scales."""
        return dict(self._model.adapters())

    def set_adapters(self, scales: dict[str, float]) -> None:
        """Switches LoRA adapters, from the next answer on; nothing is loaded again.

        Parameters
        ----------
        scales : dict of path to scale
            As :func:`load` got the paths. An adapter that is not named is not applied.

        Raises
        ------
        ValueError
            If a path is none of the adapters', or a scale is not a number.
        """
        loaded = [path for path, _ in self._model.adapters()]
        for path in scales:
            if path not in loaded:
                raise ValueError(f"[set_adapters] '{path}' was not loaded; there are {', '.join(loaded) or 'none'}")
        self._model.set_adapter_scales([float(scales.get(path, 0.0)) for path in loaded])

    def streaming(self) -> dict[str, Any]:
        """Weights that are streamed (``memory`` of :func:`load`), and what passes over them took; empty: none are."""
        return self._model.streaming()

    def _ids(self, prompt: Any) -> list[int]:
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt)
        prompt = list(prompt) if isinstance(prompt, (list, tuple)) else [None]
        if prompt and isinstance(prompt[0], dict):
            return self.tokenizer.apply_chat_template(prompt)
        if all(isinstance(each, int) for each in prompt):
            return [int(each) for each in prompt]
        raise TypeError("[generate] a prompt is a text, a list of messages or a list of token ids")


_FORMATS = ("schema", "regex", "grammar", "choices")
_OPTIONS = frozenset(("max_tokens", "seed", "stop", *_FORMATS, *_core._sampling_options()))


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(f"[generate] unknown option '{name}'; there are {', '.join(sorted(_OPTIONS))}")
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(given.get("stop"), str):
        given["stop"] = [given["stop"]]
    formats = [name for name in _FORMATS if name in given]
    if len(formats) > 1:
        raise ValueError(f"[generate] {' and '.join(formats)} exclude each other")
    for name in formats:
        given["format"] = [name, _format_source(name, given.pop(name))]
    return given


def _format_source(name: str, value: Any) -> str:
    if name == "schema":
        if hasattr(value, "model_json_schema"):
            value = value.model_json_schema()
        return value if isinstance(value, str) else json.dumps(value)
    return json.dumps(list(value)) if name == "choices" else str(value)


def _is_single(prompt: Any) -> bool:
    return isinstance(prompt, str) or (len(prompt) > 0 and isinstance(prompt[0], (dict, int)))


def _pairs(conversation: Sequence[Message]) -> list[tuple[str, str]]:
    for message in conversation:
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise ValueError("[apply_chat_template] a message is {'role': ..., 'content': ...}")
    return [(message["role"], message["content"]) for message in conversation]


def _bar(share: float) -> None:
    done = int(share * 30)
    print(f"\rloading [{'#' * done}{' ' * (30 - done)}] {share:4.0%}", end="" if share < 1 else "\r\033[K",
          file=sys.stderr, flush=True)


def load(
    model: str,
    *,
    device: str = "auto",
    threads: int = 0,
    context: int = 0,
    sequences: int = 1,
    kv_type: Literal["f32", "bf16", "f16", "q8_0", "q4_0"] | None = None,
    memory: int = 0,
    host_memory: int = 0,
    quantize: str = "",
    adapters: str | Sequence[str] | dict[str, float] = (),
    progress: bool | Callable[[float], Any] = True,
) -> LanguageModel:
    """Loads a language model.

    Parameters
    ----------
    model : str
        A GGUF file, a folder or file of safetensors, or a name that ``gabbro list`` shows.
    device : str
        'auto' (a usable GPU, else the CPU), 'cpu', 'rocm', 'cuda:0', ...
    threads : int
        Of the CPU; 0: one for each physical core.
    context : int
        Tokens that a prompt and its answer may have; 0: what the model was trained for, at most 4096.
    sequences : int
        Prompts that are computed together.
    kv_type : str, optional
        Type of keys and values in the cache: 'f32', 'bf16', 'f16', 'q8_0' or 'q4_0'. By default f16; f32 of models
        with an encoder and a decoder. The last two have blocks of 32 elements, which have to divide the size of a head.
    memory : int
        Bytes that the model may take on the device (on the CPU: the process); 0: no limit; -1: nine tenths of what is
        free. Weights that do not fit are streamed from the files, layer by layer.
    host_memory : int
        With ``memory`` on a GPU: bytes of host memory for streamed weights, so that fewer are read from files.
    quantize : str
        f32, f16 and bf16 weights become this type, 'q4_k_m', 'q8_0', ..., while they are loaded.
    adapters : str, list of str, or dict of str to float
        LoRA adapters, folders of PEFT or GGUF files, that are applied together; of a dict with these scales.
        :meth:`LanguageModel.set_adapters` switches them.
    progress : bool or function
        True draws a bar where standard error is a terminal. A function is called with the fraction that is loaded.

    Raises
    ------
    ValueError
        If the files are not a model that runs here; the message names the reason.
    DeviceError
        If the device is missing or has too little memory.
    """
    report = progress if callable(progress) else _bar if progress and sys.stderr.isatty() else None
    named = [adapters] if isinstance(adapters, str) else adapters
    scaled = list(named.items()) if isinstance(named, dict) else [(str(path), 1.0) for path in named]
    return LanguageModel(_core._LanguageModel.load(
        str(model), device, threads, context, sequences, kv_type, memory, host_memory, quantize, scaled, report))
