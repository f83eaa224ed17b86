#!/usr/bin/env python3
"""Plants one fault for each check, runs all tests of a pack, and shows which fault is lost without that check.

    measure_checks.py PACK [--jobs N]

PACK is a decoder with a sliding window, such as mistral, in f32 with lengths 1 and 31. The CPU stands for a device. A
check is needed where its fault is found by no other. Exit code 1 where a fault is not found, or by another check alone.
Not here: detect, compile, devices and oom need a card, parity needs Gabbro. finite and ladder find nothing that
end_to_end does not; they name the cause.
"""
import argparse
import collections
import json
import os
import pathlib
import sys
import tempfile
import time

from measure_bisect import runner

EXPRESSION = "not compile and not detect"
SMALL = 4.6e-6  # more than a limit of f32, and less than that times the root of 2


def changed(forward, change):
    """forward() whose result goes through change(output, tokens, keywords)."""
    def call(*args, **kwargs):
        return change(forward(*args, **kwargs), kwargs)
    return call


def logits(model, change):
    """Lets change(logits, keywords) put other values in the place of the model's logits."""
    def apply(output, given):
        output.logits = change(output.logits, given)
        return output
    model.forward = changed(model.forward, apply)


def spread(x):
    """Numbers as x has them in size, with signs that alternate."""
    signs = 1.0 - 2.0 * (x.new_ones(x.shape).cumsum(-1) % 2)
    return x.detach().pow(2).mean().sqrt() * signs


def rows_from(first, size):
    def change(x, given):
        if x.shape[0] != size:
            return x
        return x.clone().index_copy(0, x.new_tensor([first]).long(), (x[first] + SMALL * spread(x[first]))[None])
    return change


def last_block(model):
    block = model.model.layers[-1]
    block.forward = changed(block.forward, lambda x, given: x * 1.001)


def between_blocks(model):
    """In the whole model alone, small values do not reach the first layer; only faint weights have many."""
    block, inside = model.model.layers[0], []
    whole, usual = model.forward, block.forward

    def run(*args, **kwargs):
        inside.append(True)
        try:
            return whole(*args, **kwargs)
        finally:
            inside.pop()

    def flushed(x, *args, **kwargs):
        return usual(x.masked_fill(x.abs() < 1e-4, 0) if inside and x.abs().max() < 0.1 else x, *args, **kwargs)
    model.forward, block.forward = run, flushed


def eager_softmax(model):
    import torch
    from measure_bisect import faults

    usual = model.forward

    def run(*args, **kwargs):
        with faults.Faulty(faults.FUNCTIONS["softmax_exp"]) if eager(model) else torch.enable_grad():
            return usual(*args, **kwargs)
    model.forward = run


def eager(model):
    return model.config._attn_implementation == "eager"


def unsteady(model):
    calls = []

    def change(x, given):
        calls.append(1)
        return x * (1 + 2.0**-23) if len(calls) % 4 == 0 else x
    logits(model, change)


def forgets_mask(model):
    usual = model.forward

    def run(*args, attention_mask=None, **kwargs):
        if attention_mask is not None and int((attention_mask == 0).sum()) > 16:
            attention_mask = attention_mask.new_ones(attention_mask.shape)
        return usual(*args, attention_mask=attention_mask, **kwargs)
    model.forward = run


def sees_future(model):
    def change(x, given):
        alone = x.shape[:2] == (1, 12) and not given.get("use_cache") and given.get("attention_mask") is None
        return x + 1e-4 * x[:, -1:] if alone else x
    logits(model, change)


def forgets_window(model):
    usual = model.forward

    def run(*args, **kwargs):
        before = model.config.sliding_window
        long = not kwargs.get("use_cache") and kwargs["input_ids"].shape[1] > 64
        model.config.sliding_window = None if long else before
        try:
            return usual(*args, **kwargs)
        finally:
            model.config.sliding_window = before
    model.forward = run


def cache_off_by_one(model):
    usual = model.forward

    def run(*args, position_ids=None, **kwargs):
        if position_ids is not None and kwargs["input_ids"].shape[1] == 1:
            position_ids = position_ids + (position_ids >= 64).long()
        return usual(*args, position_ids=position_ids, **kwargs)
    model.forward = run


def second_best(model):
    import torch

    usual = torch.argmax
    torch.argmax = lambda x, *a, **k: x.topk(2, -1)[1][..., 1] if x.dim() == 2 and not a else usual(x, *a, **k)


def other_seed(model):
    import torch

    usual = torch.multinomial

    def draw(*args, **kwargs):
        return usual(*args, **kwargs, generator=torch.Generator().manual_seed(time.monotonic_ns()))
    torch.multinomial = draw


def gradient(model):
    model.model.layers[0].mlp.down_proj.weight.register_hook(lambda g: g * 1.001)


def autocast_tail(model):
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    class Cut(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is functional.linear and torch.is_autocast_enabled("cpu"):
                args = (args[0][..., :-4], args[1][:, :-4], *args[2:])
            return func(*args, **(kwargs or {}))

    usual = model.forward

    def run(*args, **kwargs):
        with Cut():
            return usual(*args, **kwargs)
    model.forward = run


def leak(model):
    import torch

    kept = []

    def change(x, given):
        kept.append(torch.ones(1 << 18))
        KEPT.append(kept)
        return x
    logits(model, change)


KEPT = []


def slow_shape(model):
    def change(x, given):
        time.sleep(0.2 if x.shape[1] == 13 else 0)
        return x
    logits(model, change)


def saves_rounded(model):
    usual = model.save_pretrained

    def save(folder, **options):
        import copy

        other = copy.deepcopy(model)
        other.lm_head.weight.data = other.lm_head.weight.data.bfloat16().float()
        type(model).save_pretrained(other, folder, **options)
    model.save_pretrained = save if usual else None


def wrong_cumsum(model):
    """Not in the model: in torch."""


FAULTS = {
    "probe": ("cumsum wrong by a thousandth", wrong_cumsum),
    "layers": ("last block scaled, which a norm hides", last_block),
    "end_to_end": ("small values lost between blocks", between_blocks),
    "attention": ("softmax of eager attention", eager_softmax),
    "repeat": ("every fourth run differs in the last bit", unsteady),
    "rows": ("third row of three, near the limit", lambda model: logits(model, rows_from(2, 3))),
    "batch": ("second row of two, near the limit", lambda model: logits(model, rows_from(1, 2))),
    "padding": ("mask ignored beyond 16 hidden columns", forgets_mask),
    "causal": ("one text alone sees its last token", sees_future),
    "window": ("window ignored beyond 64 tokens", forgets_window),
    "cache": ("steps after 64 tokens off by one", cache_off_by_one),
    "generate": ("argmax takes the second", second_best),
    "sampling": ("multinomial ignores the seed", other_seed),
    "grad": ("one gradient wrong by a thousandth", gradient),
    "autocast": ("end of K missing in mixed precision", autocast_tail),
    "memory": ("1 MiB kept in each call", leak),
    "speed": ("a new shape takes 0.2 s", slow_shape),
    "saveload": ("a matrix is saved rounded", saves_rounded),
}


class Planter:
    """A plugin of pytest: plants a fault in every subject."""

    def __init__(self, plant):
        self.plant = plant

    def pytest_collection_modifyitems(self):
        support = sys.modules["support"]
        make = support.make_subject

        def made(*args, **kwargs):
            model = make(*args, **kwargs)
            self.plant(model)
            return model

        support.make_subject = made
        if self.plant is not saves_rounded:
            import transformers

            loaded = transformers.PreTrainedModel.from_pretrained.__func__

            def load(cls, *args, **kwargs):
                model = loaded(cls, *args, **kwargs)
                self.plant(model)
                return model

            transformers.PreTrainedModel.from_pretrained = classmethod(load)
        if self.plant is wrong_cumsum:
            break_cumsum()


def break_cumsum():
    import torch

    def wrong(usual):
        def call(x, *args, **kwargs):
            result = usual(x, *args, **kwargs)
            return result * 1.001 if result.dtype == torch.float32 else result
        return call
    torch.cumsum, torch.Tensor.cumsum = wrong(torch.cumsum), wrong(torch.Tensor.cumsum)


def run(pack, check, plant, out):
    """In a fork: the checks that fail with the fault."""
    process = os.fork()
    if process == 0:
        try:
            plugins = [Planter(plant)] if plant else []
            options = argparse.Namespace(device="cpu", limit=60.0, k=EXPRESSION, plugins=plugins)
            runner.run_pack(pack, options, str(out / check))
        finally:
            os._exit(0)
    return process


def found_by(path):
    """{check: its tests that failed}; memory_leak and memory_cycles are of one check."""
    found = collections.defaultdict(list)
    for row in json.loads(path.read_text()):
        if row["status"] in ("failed", "crashed", "timeout"):
            name = row["check"]
            found[name.split("_")[0] if name.startswith(("memory", "speed")) else name].append(row)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pack")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="names of checks")
    options = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    runner.warm_up()
    chosen = {check: row for check, row in FAULTS.items() if not options.only or check in options.only.split(",")}
    pack, wrong = pathlib.Path(options.pack).resolve(), 0
    with tempfile.TemporaryDirectory() as folder:
        out, running = pathlib.Path(folder), 0
        for check, plant in [("none", None), *((check, plant) for check, (_, plant) in chosen.items())]:
            if running == options.jobs:
                os.wait()
                running -= 1
            run(pack, check, plant, out)
            running += 1
        while running:
            os.wait()
            running -= 1
        if usual := found_by(out / "none"):
            print(f"without a fault: {', '.join(usual)} fail")
            return 1
        for check, (title, _) in chosen.items():
            others = dict(found_by(out / check))
            mine = others.pop(check, [])
            verdict = "lost without it" if mine and not others else f"found by {', '.join(others)}, too" if mine else \
                f"not found by it, but by {', '.join(others) or 'none'}"
            print(f"{check}: {title}: {len(mine)} tests; {verdict}", flush=True)
            wrong += not mine or bool(others)
    print(f"{len(chosen) - wrong} of {len(chosen)} checks find what no other finds")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
