"""Caches, generate(), saving, and the calls around a model."""
import torch
from planted import fault, on_device, replace


@fault("llama", report="github.com/vllm-project/vllm/issues/48266", check="cache")
def dynamic_cache_loses_a_token():
    from transformers.cache_utils import DynamicLayer

    def make(usual):
        def wrong(self, keys, values, *more, **options):
            if self.is_initialized and self.keys.numel() and on_device(keys) and self.keys.shape[-2] == 64:
                self.keys = torch.cat([self.keys[..., :-1, :], self.keys[..., -2:-1, :]], -2)
            return usual(self, keys, values, *more, **options)
        return wrong
    replace(DynamicLayer, "update", make)


@fault("mistral", report="github.com/unslothai/unsloth/pull/8253", check="cache")
def sliding_cache_keeps_one_too_few():
    from transformers.cache_utils import DynamicSlidingWindowLayer

    def make(usual):
        def wrong(self, *args, **options):
            result = usual(self, *args, **options)
            if self.keys.shape[-2] >= self.sliding_window - 1:
                self.keys = torch.cat([self.keys[..., 1:2, :], self.keys[..., 1:, :]], -2)
            return result
        return wrong
    replace(DynamicSlidingWindowLayer, "update", make)


@fault("t5", "whisper", check="cache")
def cross_cache_is_taken_from_the_decoder():
    from transformers.cache_utils import EncoderDecoderCache

    def make(usual):
        def wrong(self, *args, **options):
            usual(self, *args, **options)
            for layer in self.cross_attention_cache.layers:
                if getattr(layer, "keys", None) is not None and on_device(layer.keys):
                    layer.keys = layer.keys * 1.01
        return wrong
    replace(EncoderDecoderCache, "__init__", make)

    from transformers.cache_utils import DynamicLayer

    def update(usual):
        def wrong(self, keys, values, *more, **options):
            result = usual(self, keys, values, *more, **options)
            self.keys = self.keys * 1.001 if on_device(keys) else self.keys
            return result
        return wrong
    replace(DynamicLayer, "update", update)


@fault("llama", report="github.com/unslothai/unsloth/issues/3699", check="generate")
def generate_ignores_padding_in_positions():
    from transformers.generation.utils import GenerationMixin

    def make(usual):
        def wrong(self, inputs_tensor, model_kwargs):
            positions = usual(self, inputs_tensor, model_kwargs)
            return torch.arange(positions.shape[-1], device=positions.device)[None].expand(positions.shape).clone()
        return wrong
    replace(GenerationMixin, "_prepare_position_ids_for_generation", make)


@fault("llama", "gpt2", check="generate")
def generate_hides_new_tokens():
    from transformers.generation.utils import GenerationMixin

    def make(usual):
        def wrong(self, outputs, model_kwargs, *args, **options):
            made = usual(self, outputs, model_kwargs, *args, **options)
            if made.get("attention_mask") is not None and made["attention_mask"].shape[-1] > 14:
                made["attention_mask"] = made["attention_mask"].clone()
                made["attention_mask"][:, -3] = 0
            return made
        return wrong
    replace(GenerationMixin, "_update_model_kwargs_for_generation", make)


@fault("llama", report="github.com/huggingface/transformers/pull/14654", check="beams")
def beams_forget_their_scores():
    from transformers.generation.utils import GenerationMixin

    def make(usual):
        def wrong(self, *args, **options):
            result = usual(self, *args, **options)
            if isinstance(result, tuple) and result[0].is_floating_point():
                return (result[0] * 1.05, *result[1:])
            return result
        return wrong
    replace(GenerationMixin, "_get_top_k_continuations", make)


@fault("llama", check="cache")
def long_cache_returns_shifted_values():
    from transformers.cache_utils import DynamicLayer

    def make(usual):
        def wrong(self, keys, values, *more, **options):
            keys, values = usual(self, keys, values, *more, **options)
            return keys, values.roll(1, -2) if on_device(values) and values.shape[-2] > 66 else values
        return wrong
    replace(DynamicLayer, "update", make)


@fault("mamba", report="github.com/huggingface/transformers/issues/48256", check="cache")
def state_of_the_convolution_is_stale():
    from transformers.models.mamba import modeling_mamba

    def make(usual):
        def wrong(x, state, *args, **options):
            before = state.clone()
            result = usual(x, state, *args, **options)
            if on_device(x):
                state.copy_(before)
            return result
        return wrong
    replace(modeling_mamba, "causal_conv1d_update", make)


@fault("mamba", report="github.com/huggingface/transformers/issues/46612", check="reordered")
def beams_keep_the_order_of_states():
    from transformers.cache_utils import LinearAttentionCacheLayerMixin

    LinearAttentionCacheLayerMixin.reorder_cache = lambda self, beam_idx: None


@fault("mamba", report="github.com/huggingface/transformers/pull/41790", check="padding or mask")
def mask_of_padding_is_ignored():
    from transformers.models.mamba import modeling_mamba

    def make(usual):
        return lambda states, mask: states
    replace(modeling_mamba, "apply_mask_to_padding_states", make)


@fault("llama", check="embeds")
def embeddings_of_the_caller_are_scaled():
    from transformers.models.llama.modeling_llama import LlamaModel

    def make(usual):
        def wrong(self, *args, inputs_embeds=None, **options):
            inputs_embeds = inputs_embeds * 1.01 if inputs_embeds is not None else None
            return usual(self, *args, inputs_embeds=inputs_embeds, **options)
        return wrong
    replace(LlamaModel, "forward", make)


@fault("llama", check="positions")
def positions_of_the_caller_are_dropped():
    from transformers.models.llama.modeling_llama import LlamaModel

    def make(usual):
        def wrong(self, *args, position_ids=None, **options):
            return usual(self, *args, **options)
        return wrong
    replace(LlamaModel, "forward", make)


@fault("llama", "bert", check="saveload")
def saving_rounds_to_bf16():
    from transformers import PreTrainedModel

    def make(usual):
        def wrong(self, *args, **options):
            state = {k: v.bfloat16().to(v.dtype) if v.is_floating_point() else v for k, v in self.state_dict().items()}
            return usual(self, *args, **{**options, "state_dict": state})
        return wrong
    replace(PreTrainedModel, "save_pretrained", make)


@fault("llama", report="github.com/huggingface/transformers/pull/46456", check="tied")
def loading_ties_an_untied_head():
    from transformers import PreTrainedModel

    def make(usual):
        def wrong(cls, *args, **options):
            model = usual.__func__(cls, *args, **options)
            model.get_output_embeddings().weight = model.get_input_embeddings().weight
            return model
        return classmethod(wrong)
    PreTrainedModel.from_pretrained = make(PreTrainedModel.__dict__["from_pretrained"])


@fault("llama", "gpt2", report="github.com/huggingface/transformers/pull/45079", check="resize")
def resizing_moves_old_rows():
    from transformers import PreTrainedModel

    def make(usual):
        def wrong(self, *args, **options):
            result = usual(self, *args, **options)
            with torch.no_grad():
                weight = self.get_output_embeddings().weight
                weight.copy_(weight.roll(1, 0))
            return result
        return wrong
    replace(PreTrainedModel, "resize_token_embeddings", make)
