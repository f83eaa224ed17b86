#!/usr/bin/env python3
"""Runs endpoint.py for real: tiny models of each family and task, saved to a folder, loaded by init_cpu, and asked.

    run_endpoints.py GABBRO [TYPE:TASK ...]

Each row is a model type and the class of a task; the handlers of all its endpoint tasks are made and called on the
CPU with the pack's own inputs. On a machine without a GPU init_cuda and init_rocm have to raise with a reason. Exit
code 1 where one of them does otherwise, or where a task of the interface has no row.
"""
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCES = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCES / "tests" / "testgen"))
from measure_bisect import in_fork, runner  # noqa: E402

# The families and tasks of the interface. Without a class in transformers 5 are rag, diffusion, graph, text-to-image,
# and with them graph-classification, node-classification and text-to-image: said in docs/guides/testgen.md.
ROWS = """
bert:masked-lm roberta:sequence-classification distilbert:token-classification electra:question-answering bert:base
llama:causal-lm t5:seq2seq-lm bart:seq2seq-lm vit:image-classification segformer:semantic-segmentation
maskformer:universal-segmentation yolos:object-detection clip:base
whisper:speech-seq2seq wav2vec2:ctc wav2vec2:audio-classification vits:text-to-waveform
llava:image-text-to-text vilt:visual-question-answering
patchtst:time-series-regression timesfm:time-series-prediction mixtral:causal-lm mamba:causal-lm
esm:base esm:masked-lm videomae:video-classification vivit:video-classification swin2sr:image-to-image
""".split()  # noqa: SIM905
NO_CLASS = ["graph_classification", "node_classification", "protein_structure_prediction", "text_to_image"]
TASKS = """text_generation fill_mask text_classification token_classification question_answering summarization
translation feature_extraction image_classification image_segmentation object_detection audio_classification
audio_to_text text_to_audio text_to_image image_to_text time_series_forecasting graph_classification
node_classification protein_structure_prediction video_classification""".split()  # noqa: SIM905


def use(pack, folder):
    """{function: what it did} for the endpoint of one pack."""
    import torch

    torch.set_num_threads(1)
    runner.enter(pack)
    import support

    endpoint, inputs = importlib.import_module("endpoint"), importlib.import_module("inputs")
    model = support.set_weights(support.build_model())
    model.save_pretrained(folder)
    told = {}
    loaded, tokenizer, handler, queue, batch = endpoint.init_cpu(str(folder))
    given = inputs.make_inputs(model)
    told["init_cpu"] = summary(handler(**given))
    assert batch >= 1 and queue.empty() and tokenizer is None
    for name in sorted(vars(endpoint)):
        if name.startswith("create_cpu_"):
            made = getattr(endpoint, name)(loaded, tokenizer, "cpu")
            told[name] = summary(made(**given))
    for hardware in ("cuda", "rocm"):
        told[f"init_{hardware}"] = refusal(getattr(endpoint, f"init_{hardware}"), folder)
    try:
        handler("a text")
    except ValueError as error:
        told["text without a tokenizer"] = f"ValueError: {error}"
    endpoint.clean_up("cpu")
    return told


def summary(output):
    import torch

    tensors = {k: v for k, v in output.items() if isinstance(v, torch.Tensor)}
    if not tensors:
        raise AssertionError("the handler returned no tensor")
    bad = [k for k, v in tensors.items() if v.is_floating_point() and v.isnan().any()]
    if bad:
        raise AssertionError(f"NaN in {bad}")
    return ", ".join(f"{k} {tuple(v.shape)}" for k, v in tensors.items())


def refusal(init, folder):
    import torch

    if torch.cuda.is_available():
        return "not asked: there is a GPU"
    try:
        init(str(folder))
    except RuntimeError as error:
        return f"RuntimeError: {error}"
    raise AssertionError(f"{init.__name__} returned an endpoint without its device")


def main():
    program, wanted = sys.argv[1], sys.argv[2:] or ROWS
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1")
    runner.warm_up()
    failed, families, tasks = 0, set(), set()
    with tempfile.TemporaryDirectory() as temporary:
        for row in wanted:
            kind, task = row.split(":")
            pack = pathlib.Path(temporary, row.replace(":", "-"))
            words = [program, "testgen", kind, "--task", task, "-o", pack, "--checks", "layers", "--json"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{row}: {done.stderr.strip()}")
                failed += 1
                continue
            family = json.loads(done.stdout)["types"][0]["family"]
            told = in_fork(lambda pack=pack: use(pack, pack / "saved"))
            if "failed" in told:
                print(f"{row} ({family}): {told['failed'][:300]}")
                failed += 1
                continue
            families.add(family)
            made = [name for name in told if name.startswith("create_cpu_")]
            tasks |= {name.removeprefix("create_cpu_").removesuffix("_endpoint_handler") for name in made}
            print(f"{row} ({family}): {told['init_cpu'][:100]}", flush=True)
    print(f"{len(wanted) - failed} of {len(wanted)} rows; families {sorted(families)}; tasks {sorted(tasks)}")
    missing = [task for task in TASKS if task not in tasks and task not in NO_CLASS]
    print(f"without a class: {NO_CLASS}; missing: {missing}")
    return int(failed > 0 or (bool(missing) and wanted is ROWS))


if __name__ == "__main__":
    sys.exit(main())
