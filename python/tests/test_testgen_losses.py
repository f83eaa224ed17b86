"""Losses and mixed precision in losses.py of packs: definitions by the kind of model, and what a device may refuse."""

import copy
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

TEMPLATES = Path(__file__).resolve().parents[2] / "src" / "testgen" / "templates"


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module, in a pack that is a folder alone."""
    before, case = dict(sys.modules), types.ModuleType("case")
    case.__dict__.update(__file__=str(tmp_path_factory.mktemp("pack") / "case.py"), SEED=0, HAS_CACHE=False)
    sys.modules["case"] = case
    sys.path.insert(0, str(TEMPLATES))
    try:
        yield __import__("losses")
    finally:
        sys.path.remove(str(TEMPLATES))
        for name in sys.modules.keys() - before.keys():
            if str(TEMPLATES) in str(getattr(sys.modules[name], "__file__", "")) or name == "case":
                del sys.modules[name]


@pytest.mark.parametrize(
    ("task", "encoder", "shifted"),
    [("causal-lm", False, True), ("seq2seq-lm", True, False), ("seq2seq-lm", False, True), ("masked-lm", False, False),
     ("speech-seq2seq", True, False), ("speech-seq2seq", False, True)],
)  # fmt: skip
def test_decoders_alone_compare_with_the_next_token(losses: Any, task: str, encoder: bool, shifted: bool) -> None:
    assert losses.shifts(task, types.SimpleNamespace(is_encoder_decoder=encoder)) is shifted


def test_the_loss_is_cross_entropy_of_what_is_not_ignored(losses: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, inputs = torch.randn(2, 9, 7, generator=generator), {"input_ids": torch.randint(0, 7, (2, 9))}
    for task, shifted in (("seq2seq-lm", True), ("masked-lm", False)):
        labels = losses.labels_of(task, shifted, logits, inputs)
        moved = (logits[:, :-1], labels[:, 1:]) if shifted else (logits, labels)
        expected = torch.nn.functional.cross_entropy(moved[0].reshape(-1, 7).double(), moved[1].reshape(-1))
        assert float(losses.own_loss(shifted, logits, labels)) == pytest.approx(float(expected), rel=1e-6)
    assert torch.equal(losses.labels_of("causal-lm", True, logits, inputs)[0, [0, 2]], inputs["input_ids"][0, [0, 2]])


def test_what_the_cpu_refuses_in_a_half_a_card_may_refuse_too(losses: Any) -> None:
    mixed = __import__("mixed")
    refused = "the model does not run in f16 on the CPU: Unsupported dtype Half"
    size = RuntimeError("cuFFT only supports dimensions whose sizes are powers of two, but got a signal size of[6]")
    with pytest.raises(pytest.skip.Exception, match=r"Unsupported dtype Half; .*powers of two"):
        mixed.skip_where_refused(size, refused, "cuda:0")
    mixed.skip_where_refused(size, "", "cuda:0")  # the CPU has it: the caller raises
    mixed.skip_where_refused(RuntimeError("CUDA error: an illegal memory access"), refused, "cuda:0")


class Small(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """Two linear layers with a kink in between."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = torch.nn.Linear(16, 32), torch.nn.Linear(32, 8)

    def forward(self, x: Any) -> Any:
        return {"y": self.two(torch.nn.functional.relu(self.one(x)))}


class SteepRelu(torch.overrides.TorchFunctionMode):  # type: ignore[misc,unused-ignore]
    """A device whose derivative of relu is too large by `wrong`."""

    def __init__(self, wrong: float) -> None:
        super().__init__()
        self.wrong = wrong

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is not torch.nn.functional.relu:
            return result
        return result + self.wrong * (result - result.detach())


@pytest.mark.parametrize("half", ["bf16", "f16"])
@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_a_wrong_derivative_in_mixed_precision_is_found(losses: Any, monkeypatch: Any, half: str, wrong: float) -> None:
    mixed, support = __import__("mixed"), sys.modules["support"]
    small, usual = Small(), mixed.Measure.run
    monkeypatch.setattr(support, "make_oracle", lambda size: copy.deepcopy(small).double())
    monkeypatch.setattr(support, "make_subject", lambda *_args, **_options: copy.deepcopy(small))
    monkeypatch.setattr(support, "attention_of_oracle", lambda: None)

    def run(self: Any, device: str, *modes: Any, **options: Any) -> Any:
        more = [SteepRelu(wrong), mixed.CastsOfCards(), support.OtherOrder(9)] if device == "card" else []
        return usual(self, "cpu", *more, *modes, **options)

    monkeypatch.setattr(mixed.Measure, "run", run)

    def check() -> None:
        mixed.check_mixed(support.DTYPES[half], "card", "tiny", lambda _model: {"x": torch.randn(6, 16)})

    if wrong:
        with pytest.raises(AssertionError, match=r"gradient of .* in mixed precision is off"):
            check()
    else:
        check()


def test_a_module_next_to_the_layers_may_end_elsewhere(losses: Any) -> None:
    recorded = __import__("recorded")
    names = ("model.embed_tokens", "model.norm", "model.layers.0", "output logits", "decoder.block.1.layer.0")
    assert [recorded.beside_layers(name) for name in names] == [True, True, False, False, False]
