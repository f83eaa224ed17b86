"""Losses, gradients, optimizers, and mixed precision."""
import torch
from planted import fault, on_device, replace


@fault("llama", "bert", report="github.com/huggingface/transformers/issues/46731", check="loss")
def ignored_labels_count():
    from transformers.loss import loss_utils

    def make(usual):
        def wrong(source, target, *more, **options):
            loss = usual(source, target, *more, **options)
            return loss * (target != -100).sum() / target.numel()
        return wrong
    replace(loss_utils, "fixed_cross_entropy", make)

    def cross(usual):
        def wrong(self, source, target):
            return usual(self, source, target) * (target != -100).sum() / target.numel()
        return wrong
    replace(torch.nn.CrossEntropyLoss, "forward", cross)


@fault("llama", report="github.com/huggingface/transformers/issues/37766", check="loss")
def loss_is_the_sum():
    from transformers.loss import loss_utils

    def make(usual):
        def wrong(source, target, *more, **options):
            return usual(source, target, *more, **options) * (target != -100).sum()
        return wrong
    replace(loss_utils, "fixed_cross_entropy", make)


@fault("bert", check="grad")
def gradient_of_layer_norm_lacks_a_term():
    from torch.nn import functional

    def make(usual):
        def wrong(x, *more, **options):
            if on_device(x) and x.requires_grad:
                x = x * 1.01 - (x * 0.01).detach()
            return usual(x, *more, **options)
        return wrong
    replace(functional, "layer_norm", make)


@fault("llama", check="optimizer")
def optimizer_decays_twice():
    def make(usual):
        def wrong(self, *args, **options):
            for group in self.param_groups:
                for p in group["params"]:
                    if on_device(p) and p.grad is not None:
                        p.data.mul_(1 - group["lr"] * group["weight_decay"])
            return usual(self, *args, **options)
        return wrong
    replace(torch.optim.AdamW, "step", make)


@fault("llama", check="autocast_grad")
def scaler_does_not_unscale():
    replace(torch.amp.GradScaler, "unscale_", lambda usual: lambda self, optimizer: None)


@fault("llama", check="autocast")
def mixed_precision_changes_weights():
    def make(usual):
        def wrong(self, *args, **options):
            if torch.is_autocast_enabled(self.weight.device.type) and on_device(self.weight):
                self.weight.data = self.weight.data.bfloat16().float()
            return usual(self, *args, **options)
        return wrong
    replace(torch.nn.Linear, "forward", make)


@fault("gpt2", report="github.com/pytorch/pytorch/issues/7617", check="checkpointing")
def checkpointing_skips_a_layer():
    from transformers import PreTrainedModel

    def make(usual):
        def wrong(self, *more, **options):
            usual(self, *more, **options)
            layers = [m for m in self.modules() if hasattr(m, "_gradient_checkpointing_func")]
            for module in layers[-1:]:
                module._gradient_checkpointing_func = lambda call, first, *rest: call(first * 1.01, *rest)
        return wrong
    replace(PreTrainedModel, "gradient_checkpointing_enable", make)
