"""Replicas of a language model on a Ray cluster, by Ray Serve.

``serve run gabbro.ray_serve:app model=smollm2-135m-instruct-q4_1 replicas=2`` starts them, and

``curl -d '{"prompt": "The capital of France is", "max_tokens": 8}' localhost:8000`` asks one of them.

A request is a JSON object: ``prompt`` (a text, messages or token ids) and options of
`gabbro.llm.LanguageModel.generate`. The answer is a JSON object with the attributes of `gabbro.llm.Generation`.
Requests of a replica that is lost go to another one. Needs the package ``ray[serve]``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

from ray import serve
from ray.exceptions import RayActorError
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from starlette.responses import JSONResponse

from . import llm

__all__ = ["app"]

_MOST_TRIES = 5
_MOST_BYTES = 1 << 20  # of a request


class _Model:
    """A replica: a process with the model, which computes up to `sequences` requests together."""

    def __init__(self, model: str, device: str, threads: int, context: int, sequences: int) -> None:
        self._model = llm.load(
            model, device=device, threads=threads, context=context, sequences=sequences, progress=False
        )
        self._waiting: list[tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = []
        self._sequences = sequences
        self._worker: asyncio.Task[None] | None = None

    async def generate(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer, or {"error": TEXT}."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        while self._waiting:
            options = self._options(self._waiting[0][0])
            together = [entry for entry in self._waiting if self._options(entry[0]) == options][: self._sequences]
            self._waiting = [entry for entry in self._waiting if entry not in together]
            prompts = [entry[0]["prompt"] for entry in together]
            for (_, answer), result in zip(together, await self._answers(prompts, options), strict=True):
                if not answer.done():
                    answer.set_result(result)

    async def _answers(self, prompts: list[Any], options: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            results = await asyncio.to_thread(self._model.generate, prompts, **options)
            return [dataclasses.asdict(result) for result in results]
        except (TypeError, ValueError) as error:
            if len(prompts) == 1:
                return [{"error": str(error)}]
        return [(await self._answers([prompt], options))[0] for prompt in prompts]  # one of them is wrong

    @staticmethod
    def _options(request: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in request.items() if name != "prompt"}


class _Front:
    """Takes requests over HTTP, and gives requests of a lost replica to another one."""

    def __init__(self, model: DeploymentHandle) -> None:
        self._model = model

    async def __call__(self, http: Request) -> JSONResponse:
        body = await http.body()
        try:
            request = json.loads(body) if len(body) <= _MOST_BYTES else None
        except ValueError:
            request = None
        if not isinstance(request, dict) or not isinstance(request.get("prompt"), (str, list)) or not request["prompt"]:
            text = f"expected a JSON object of at most {_MOST_BYTES} bytes with a prompt"
            return JSONResponse({"error": text}, status_code=400)
        for number in range(_MOST_TRIES):
            try:
                answer = await self._model.generate.remote(request)
                return JSONResponse(answer, status_code=400 if "error" in answer else 200)
            except RayActorError:
                await asyncio.sleep(0.1 * 2**number)  # the replica is gone: Serve learns it meanwhile
        return JSONResponse({"error": "no replica answers"}, status_code=503)


def app(arguments: dict[str, str]) -> Any:
    """The application that ``serve run gabbro.ray_serve:app`` builds.

    Parameters
    ----------
    arguments : dict
        ``model``: a name or a path. Optional: ``replicas`` (1), ``gpus`` of a replica (0 or 1), ``cpus`` of a replica
        (1), ``sequences`` that it computes together (8), ``context``, ``device``.

    Raises
    ------
    ValueError
        Without a model, and for an argument that is not known or not a number.
    """
    known = {"model", "replicas", "gpus", "cpus", "sequences", "context", "device"}
    if unknown := sorted(set(arguments) - known):
        raise ValueError(f"[ray_serve] unknown argument '{unknown[0]}'; there are {', '.join(sorted(known))}")
    if not arguments.get("model"):
        raise ValueError("[ray_serve] model=NAME is needed")

    def number(name: str, default: int, least: int, most: int) -> int:
        text = str(arguments.get(name, default))
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"[ray_serve] {name}={text} is not a number from {least} to {most}")
        return int(text)

    gpus, cpus = number("gpus", 0, 0, 1), number("cpus", 1, 1, 1024)
    device = arguments.get("device", "gpu" if gpus else "cpu")
    model = serve.deployment(
        _Model,
        name="model",
        num_replicas=number("replicas", 1, 1, 1000),
        max_ongoing_requests=4 * number("sequences", 8, 1, 1024),
        ray_actor_options={"num_cpus": cpus, "num_gpus": gpus},
        health_check_period_s=2,
        health_check_timeout_s=10,
        graceful_shutdown_timeout_s=30,
    ).bind(
        arguments["model"],
        device,
        0 if gpus else cpus,
        number("context", 0, 0, 1 << 30),
        number("sequences", 8, 1, 1024),
    )
    front = serve.deployment(_Front, name="front", ray_actor_options={"num_cpus": 0}, max_ongoing_requests=1000)
    return front.bind(model)
