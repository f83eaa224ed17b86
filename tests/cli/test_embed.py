"""`embed` and `rerank`: vectors and scores of transformers, from folders and from files that `convert` writes."""
import json
import math
import shutil
import struct

import support
from support import ROOT, TestCase

ENCODERS = ROOT / "tests" / "data" / "encoders"
TOLERANCE = 1e-2  # weights in bf16


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


class Embed(TestCase):
    def setUp(self):
        super().setUp()
        self.expected = json.loads((ENCODERS / "bert" / "texts.json").read_text())
        self.texts = self.expected["texts"]

    def vectors(self, *arguments, **options):
        return json.loads(self.succeeds("embed", *arguments, "--json", **options).text)["embeddings"]

    def model(self, **modules):
        """A copy of the model's folder with further files."""
        folder = self.folder / "model"
        shutil.copytree(ENCODERS / "bert", folder)
        for name, content in modules.items():
            path = folder / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return folder

    def expect_close(self, vectors, expected=None):
        expected = self.expected["vectors"] if expected is None else expected
        self.assertEqual(len(vectors), len(expected))
        for vector, wanted in zip(vectors, expected):
            self.assertGreater(cosine(vector, wanted), 1 - 1e-4)
            self.assertLess(max(abs(x - y) for x, y in zip(vector, wanted)), TOLERANCE)

    def test_vectors_are_those_of_transformers(self):
        self.expect_close(self.vectors(ENCODERS / "bert", *self.texts))
        self.expect_close(self.vectors(ENCODERS / "bert", "--batch", "1", *self.texts))

    def test_one_text_a_line_and_output_as_numbers_and_as_npy(self):
        file = self.file("texts.txt", "\n".join(self.texts) + "\n")
        lines = self.succeeds("embed", ENCODERS / "bert", "--file", file).text.splitlines()
        self.expect_close([list(map(float, line.split())) for line in lines])
        piped = self.succeeds("embed", ENCODERS / "bert", stdin="\n".join(self.texts).encode()).text.splitlines()
        self.assertEqual(piped, lines)
        out = self.folder / "x.npy"
        self.assertEqual(self.succeeds("embed", ENCODERS / "bert", "--file", file, "--out", out).text, "")
        raw = out.read_bytes()
        values = struct.unpack(f"<{5 * 32}f", raw[-5 * 32 * 4:])
        self.expect_close([list(values[i * 32:(i + 1) * 32]) for i in range(5)])

    def test_the_converted_file_gives_the_same(self):
        out = self.folder / "bert.gguf"
        self.succeeds("convert", ENCODERS / "bert", "--type", "f32", "-o", out)
        facts = json.loads(self.succeeds("inspect", out, "--json").text)["metadata"]
        self.assertEqual((facts["general.architecture"], facts["bert.pooling_type"]), ("bert", 1))
        self.expect_close(self.vectors(out, *self.texts))

    def test_options_of_vectors(self):
        plain = self.vectors(ENCODERS / "bert", "basalt", "--no-normalize")[0]
        self.assertNotAlmostEqual(math.hypot(*plain), 1, places=2)
        unit = self.vectors(ENCODERS / "bert", "basalt")[0]
        self.expect_close([[x / math.hypot(*plain) for x in plain]], [unit])
        short = self.vectors(ENCODERS / "bert", "basalt", "--dimensions", "8")[0]
        self.expect_close([short], [[x / math.hypot(*unit[:8]) for x in unit[:8]]])
        first = self.vectors(ENCODERS / "bert", "basalt", "--pooling", "cls")[0]
        self.assertLess(cosine(first, unit), 0.999)
        self.assertEqual(self.vectors(ENCODERS / "bert", "basalt", "--prefix", "dark "),
                         self.vectors(ENCODERS / "bert", "dark basalt"))

    def test_files_of_sentence_transformers(self):
        kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
        modules = [{"idx": i, "path": path, "type": f"sentence_transformers.models.{kind}"}
                   for i, (path, kind) in enumerate(kinds)]
        folder = self.model(**{
            "modules.json": modules, "1_Pooling__config.json": {"pooling_mode_cls_token": True},
            "sentence_bert_config.json": {"max_seq_length": 12},
            "config_sentence_transformers.json": {"prompts": {"query": "the ", "document": ""}}})
        self.assertEqual(self.vectors(folder, "sea"), self.vectors(ENCODERS / "bert", "sea", "--pooling", "cls"))
        self.assertEqual(self.vectors(folder, "sea", "--prompt-name", "query"), self.vectors(folder, "the sea"))
        self.fails(2, "embed", folder, "sea", "--prompt-name", "title", says="it has: document, query")
        self.fails(2, "embed", folder, "sea", self.texts[4], says=["text 2 has 21 tokens", "takes 12"])
        self.assertEqual(self.vectors(folder, self.texts[4], "--truncate"), self.vectors(folder, "a b c d e f g h i j"))
        for content, says in (([*modules, {"type": "x.LSTM", "path": "3"}], "LSTM"), ({}, "is not an array"),
                              ([{"type": "x.Pooling", "path": "../up"}], "not a folder of the model"),
                              ("{", "no JSON")):
            (folder / "modules.json").write_text(content if isinstance(content, str) else json.dumps(content))
            self.fails(2, "embed", folder, "sea", says=["modules.json", says])

    def test_texts_in_lower_case(self):
        tokenizer = json.loads((ENCODERS / "bert" / "tokenizer.json").read_text())
        tokenizer["normalizer"] |= {"lowercase": False, "strip_accents": True}
        expected = self.vectors(ENCODERS / "bert", "dark sea", "étang")
        cased = self.model(**{"tokenizer.json": tokenizer})
        self.assertNotEqual(self.vectors(cased, "DARK Sea", "ÉTANG"), expected)
        # As a first step, unless there is one already, also in a sequence; sentence-transformers does the same.
        sequence = {**tokenizer, "normalizer": {"type": "Sequence", "normalizers": [tokenizer["normalizer"]]}}
        for content in tokenizer, sequence:
            for name in "sentence_bert_config.json", "sentence_roberta_config.json":
                shutil.rmtree(cased)
                self.model(**{"tokenizer.json": content, name: {"max_seq_length": 30, "do_lower_case": True}})
                self.assertEqual(self.vectors(cased, "DARK Sea", "ÉTANG"), expected)
        (cased / name).write_text('{"do_lower_case": false}')
        self.assertNotEqual(self.vectors(cased, "DARK Sea", "ÉTANG"), expected)

    def test_settings_of_sentence_transformers_are_followed_or_refused(self):
        folder = self.model(**{"tokenizer_config.json": {"model_max_length": 7}})
        self.fails(2, "embed", folder, self.texts[4], says="takes 7")
        config = folder / "sentence_bert_config.json"
        for content in ({"max_seq_length": 12}, {"max_seq_length": None, "tokenizer_args": {"model_max_length": 12}}):
            config.write_text(json.dumps(content))  # counts in place of that of the tokenizer
            self.fails(2, "embed", folder, self.texts[4], says=f"takes {12}")
        plain = {"transformer_task": "feature-extraction", "module_output_name": "token_embeddings", "unpad_inputs": True,
                 "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
                 "processing_kwargs": {}, "query_length": None, "model_args": {"torch_dtype": "float32"}, "config_args": {}}
        config.write_text(json.dumps(plain))
        self.assertEqual(self.vectors(folder, "sea"), self.vectors(ENCODERS / "bert", "sea"))
        for name, value in (("do_lower_case", 1), ("max_seq_length", "many"), ("max_seq_length", -3), ("query_length", 32),
                            ("transformer_task", "fill-mask"), ("modality_config", {"image": {}}), ("something", "new"),
                            ("module_output_name", "sentence_embedding"), ("config_args", {"num_hidden_layers": 1}),
                            ("modality_config", {"text": {"method": "get_text_features"}}),
                            ("processing_kwargs", {"text": {"padding": True}}), ("tokenizer_args", {"do_basic": False})):
            config.write_text(json.dumps({**plain, name: value}))
            self.fails(2, "embed", folder, "sea", says=["sentence_bert_config.json", name])

    def test_modules_in_another_order_or_of_other_features_are_refused(self):
        dense = {"in_features": 32, "out_features": 8, "activation_function": "torch.nn.modules.linear.Identity"}
        for kinds, config, says in (
                (["Transformer", "Pooling", "Normalize", "Dense"], dense, "a module Dense in this place"),
                (["Transformer", "Dense", "Pooling"], dense, "a module Dense in this place"),
                (["Transformer", "Pooling", "Pooling"], {}, "a module Pooling in this place"),
                (["Transformer", "Pooling", "Dense"], {**dense, "use_residual": True}, "use_residual is not supported"),
                (["Transformer", "Pooling", "Dense"], {**dense, "module_input_name": "token_embeddings"}, "module_input_name"),
                (["Transformer", "Pooling", "Dense"], {**dense, "activation_function": "torch.nn.ReLU"}, "torch.nn.ReLU"),
                (["Transformer", "Pooling", "Normalize"], {"module_input_name": "token_embeddings"}, "module_input_name"),
                (["Transformer", "Pooling", "LayerNorm"], {}, "LayerNorm"),
                (["Transformer", "WeightedLayerPooling", "Pooling"], {}, "WeightedLayerPooling"),
                (["Transformer", "Pooling"], {"pooling_mode": ["mean", "cls"]}, "several kinds of pooling"),
                (["Transformer", "Pooling"], {"pooling_mode_weightedmean_tokens": True}, "pooling_mode_weightedmean_tokens"),
                (["Transformer", "Pooling"], {"pooling_mode": "mean_sqrt_len_tokens"}, "mean_sqrt_len_tokens")):
            shutil.rmtree(self.folder / "model", ignore_errors=True)
            modules = [{"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"x.{kind}"}
                       for i, kind in enumerate(kinds)]
            files = {f"{m['path']}__config.json": config if m is modules[-1] or m["type"].endswith(("Dense", "Weighted")) else {}
                     for m in modules[1:]}
            folder = self.model(**{"modules.json": modules, **files})
            self.fails(2, "embed", folder, "sea", says=says)
        # Without a mode it is the mean, as in sentence-transformers.
        shutil.rmtree(folder)
        modules = [{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}]
        folder = self.model(**{"modules.json": modules, "1_Pooling__config.json": {"pooling_mode": ["mean"]},
                               "config_sentence_transformers.json": {"prompts": {"query": None}, "default_prompt_name": "query"}})
        expected = self.vectors(ENCODERS / "bert", "sea", "--no-normalize", "--pooling", "mean")
        self.assertEqual(self.vectors(folder, "sea"), expected)
        (folder / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 32}')
        self.assertEqual(self.vectors(folder, "sea"), expected)

    def test_bad_models_and_options(self):
        self.fails(2, "embed", support.TINY_F16, "x", says="encoders of architecture 'llama' are not supported")
        self.fails(2, "embed", ENCODERS / "bert_rerank", "x", says="is a reranker")
        self.fails(2, "embed", ENCODERS / "roberta", "x", says="has no tokenizer")
        self.fails(2, "run", ENCODERS / "bert", "x", says=["is a text encoder", "gabbro embed"])
        self.fails(2, "embed", ENCODERS / "bert", "x", "--dimensions", "33", says="33")
        self.fails(2, "embed", ENCODERS / "bert", "x", "--pooling", "median", says="median")
        folder = self.model()
        config = json.loads((folder / "config.json").read_text())
        for field, value, says in (("num_attention_heads", 5, "does not divide"), ("hidden_size", 48, "has shape"),
                                   ("num_hidden_layers", 4, "is missing"),
                                   ("intermediate_size", -1, "intermediate_size"),
                                   ("hidden_act", "sine", "sine"),
                                   ("position_embedding_type", "relative_key", "relative_key"),
                                   ("layer_norm_eps", "small", "layer_norm_eps")):
            (folder / "config.json").write_text(json.dumps(config | {field: value}))
            self.fails(2, "embed", folder, "x", says=says)


class Rerank(TestCase):
    def setUp(self):
        super().setUp()
        self.expected = json.loads((ENCODERS / "bert_rerank" / "texts.json").read_text())

    def test_scores_are_those_of_transformers_best_first(self):
        query, documents = self.expected["query"], self.expected["documents"]
        for model in (ENCODERS / "bert_rerank", self.folder / "rerank.gguf"):
            if model.suffix == ".gguf":
                self.succeeds("convert", ENCODERS / "bert_rerank", "--type", "f32", "-o", model)
            results = json.loads(self.succeeds("rerank", model, query, *documents, "--json").text)["results"]
            self.assertEqual(sorted(r["index"] for r in results), list(range(len(documents))))
            self.assertEqual([r["score"] for r in results], sorted((r["score"] for r in results), reverse=True))
            for r in results:
                self.assertAlmostEqual(r["score"], self.expected["scores"][r["index"]], delta=TOLERANCE)
                self.assertEqual(r["document"], documents[r["index"]])

    def test_top_n_raw_scores_and_files(self):
        file = self.file("documents.txt", "\n".join(self.expected["documents"]))
        arguments = ("rerank", ENCODERS / "bert_rerank", self.expected["query"], "--file", file, "--top-n", "2")
        lines = self.succeeds(*arguments).text.splitlines()
        raw = self.succeeds(*arguments, "--raw-scores").text.splitlines()
        self.assertEqual([line.split("\t")[1] for line in lines], [line.split("\t")[1] for line in raw])
        for line, logit in zip(lines, raw):
            score, raw_score = (float(each.split("\t")[0]) for each in (line, logit))
            self.assertAlmostEqual(score, 1 / (1 + math.exp(-raw_score)), places=5)

    def test_a_language_model_answers_yes_or_no(self):
        expected = json.loads((ENCODERS / "qwen3_reranker" / "texts.json").read_text())
        arguments = ("rerank", ENCODERS / "qwen3_reranker", expected["query"], *expected["documents"], "--json")
        scores = {r["index"]: r["score"] for r in json.loads(self.succeeds(*arguments).text)["results"]}
        for index, score in enumerate(expected["scores"]):
            self.assertAlmostEqual(scores[index], score, delta=TOLERANCE)
        told = json.loads(self.succeeds(*arguments, "--instruction", "the deep sea").text)["results"]
        self.assertNotEqual({r["index"]: r["score"] for r in told}, scores)

    def test_what_is_refused(self):
        self.fails(2, "rerank", ENCODERS / "bert", "q", "d", says="is not a reranker")
        self.fails(2, "rerank", ENCODERS / "bert_rerank", "q", "d " * 80, says="document 1")
        self.succeeds("rerank", ENCODERS / "bert_rerank", "q", "d " * 80, "--truncate")

    def test_weights_with_adapters_for_tasks_are_refused_by_their_field(self):
        folder = self.folder / "tasks"
        shutil.copytree(ENCODERS / "xlm_roberta", folder)
        config = json.loads((folder / "config.json").read_text())
        config["lora_adaptations"] = ["retrieval.query", "retrieval.passage"]
        (folder / "config.json").write_text(json.dumps(config))
        self.fails(2, "embed", folder, "a text", says="lora_adaptations")


if __name__ == "__main__":
    support.main()
