"""Small random models of Hugging Face, and inputs that fit them."""

import torch
import torch.nn.functional as F
import transformers as hf
from peft import LoraConfig, get_peft_model

from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.nets import attached

SAMPLES = 5
#: Largest relative error of an exact sum; many models compute in float32 in parts.
TOLERANCE = 1e-4
WORDS, LENGTH, SIDE = 30, 6, 8
#: Names that different models use for the same size.
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 16,
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
DECODER = SIZES | SPECIAL | {"num_key_value_heads": 1, "head_dim": 8}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
IMAGE = {"image_size": SIDE, "patch_size": 4, "num_channels": 3}
VISION = IMAGE | {key: SIZES[key] for key in SIZES if "size" in key or "num_" in key}
VISION.pop("vocab_size")


def seq2seq(rows):
    return {"input_ids": tokens(rows), "decoder_input_ids": tokens(rows)}


def tokens(rows):
    return torch.randint(3, WORDS, (rows, LENGTH))


def text(rows):
    return {"input_ids": tokens(rows)}


def masked_text(rows):
    mask = torch.ones(rows, LENGTH, dtype=torch.long)
    for row in range(rows):
        mask[row, LENGTH - row % 3 :] = 0
    return {"input_ids": tokens(rows), "attention_mask": mask}


def image(rows):
    return {"pixel_values": torch.randn(rows, 3, SIDE, SIDE)}


def wide_image(rows):
    return {"pixel_values": torch.randn(rows, 3, 16, 16)}


def sound(rows):
    return {"input_features": torch.randn(rows, 8, 2 * LENGTH)}


def gpt2():
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16}
    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = hf.GPT2Config(vocab_size=WORDS, **sizes, **none, **SPECIAL)
    return hf.GPT2LMHeadModel(config)


def decoder(kind, config, **options):
    return lambda: kind(config(**(DECODER | options)))


def encoder(kind, config, **options):
    return lambda: kind(config(**(SIZES | SPECIAL | NO_DROPOUT | options)))


def vision(kind, config, **options):
    return lambda: kind(config(**(VISION | options)))


def distilbert():
    sizes = {"dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 2}
    none = {"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0}
    config = hf.DistilBertConfig(
        vocab_size=WORDS, max_position_embeddings=16, pad_token_id=0, **sizes, **none
    )
    return hf.DistilBertForMaskedLM(config)


def convnext():
    config = hf.ConvNextConfig(
        num_channels=3,
        patch_size=2,
        num_stages=2,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        image_size=16,
    )
    return hf.ConvNextForImageClassification(config)


def whisper():
    config = hf.WhisperConfig(
        vocab_size=WORDS,
        num_mel_bins=8,
        d_model=16,
        encoder_layers=2,
        encoder_attention_heads=2,
        encoder_ffn_dim=24,
        max_source_positions=LENGTH,
        dropout=0.0,
        **SPECIAL,
    )
    return hf.WhisperForAudioClassification(config)


def siglip():
    sizes = VISION | {"num_hidden_layers": 1}
    return hf.SiglipVisionModel(hf.SiglipVisionConfig(**sizes))


def t5():
    config = hf.T5Config(
        vocab_size=WORDS,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=2,
        num_heads=2,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=2,
        relative_attention_num_buckets=8,
        tie_word_embeddings=False,
    )
    return hf.T5ForConditionalGeneration(config)


def deberta():
    config = hf.DebertaV2Config(
        **SIZES,
        **SPECIAL,
        **NO_DROPOUT,
        relative_attention=True,
        position_buckets=4,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=0,
    )
    return hf.DebertaV2ForMaskedLM(config)


def opt():
    config = hf.OPTConfig(
        **SIZES, **SPECIAL, ffn_dim=24, word_embed_proj_dim=16, dropout=0.0
    )
    return hf.OPTForCausalLM(config)


def mamba():
    config = hf.MambaConfig(
        vocab_size=WORDS,
        hidden_size=16,
        state_size=4,
        num_hidden_layers=2,
        time_step_rank=2,
        **SPECIAL,
    )
    return hf.MambaForCausalLM(config)


def swin():
    config = hf.SwinConfig(
        image_size=16,
        patch_size=2,
        num_channels=3,
        embed_dim=8,
        depths=[2, 1],
        num_heads=[2, 2],
        window_size=4,
        drop_path_rate=0.0,
        **NO_DROPOUT,
    )
    return hf.SwinForImageClassification(config)


#: {name: (function that builds the model, function that builds a batch)}.
ARCHITECTURES = {
    "GPT-2": (gpt2, text),
    "GPT-NeoX": (decoder(hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig), text),
    "Phi": (
        decoder(
            hf.PhiForCausalLM,
            hf.PhiConfig,
            partial_rotary_factor=0.5,
            num_key_value_heads=2,
        ),
        text,
    ),
    "Llama": (decoder(hf.LlamaForCausalLM, hf.LlamaConfig), text),
    "Mistral": (decoder(hf.MistralForCausalLM, hf.MistralConfig), text),
    "Qwen3": (decoder(hf.Qwen3ForCausalLM, hf.Qwen3Config), text),
    "Phi-3": (
        decoder(hf.Phi3ForCausalLM, hf.Phi3Config, num_key_value_heads=2),
        text,
    ),
    "BERT": (encoder(hf.BertForMaskedLM, hf.BertConfig), text),
    "RoBERTa": (encoder(hf.RobertaForMaskedLM, hf.RobertaConfig), text),
    "DistilBERT": (distilbert, text),
    "ModernBERT": (
        encoder(hf.ModernBertForMaskedLM, hf.ModernBertConfig, local_attention=4),
        text,
    ),
    "DeBERTa-v3": (deberta, text),
    "T5": (t5, seq2seq),
    "Gemma 3": (
        decoder(hf.Gemma3ForCausalLM, hf.Gemma3TextConfig, sliding_window=4),
        text,
    ),
    "OPT": (opt, masked_text),
    "Mixtral": (
        decoder(
            hf.MixtralForCausalLM,
            hf.MixtralConfig,
            num_local_experts=3,
            num_experts_per_tok=2,
        ),
        text,
    ),
    "Mamba": (mamba, text),
    "ViT": (vision(hf.ViTForImageClassification, hf.ViTConfig), image),
    "DINOv2": (vision(hf.Dinov2ForImageClassification, hf.Dinov2Config), image),
    "SigLIP": (siglip, image),
    "ConvNeXt": (convnext, wide_image),
    "Swin": (swin, wide_image),
    "Whisper encoder": (whisper, sound),
}
WAYS = ("full", "LoRA", "biases")


def model_of(name, way):
    """Return a model without dropout, with a way's trainable parameters."""
    torch.manual_seed(0)
    model = ARCHITECTURES[name][0]()
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():  # biases and scales that are not 0 or 1
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data += 0.1 * noise
    if way == "LoRA":
        # peft rejects the other linear layers of Mamba, which uses their weights.
        target = ["x_proj", "in_proj"] if name == "Mamba" else "all-linear"
        config = LoraConfig(r=2, target_modules=target, init_lora_weights=False)
        model = get_peft_model(model, config)
    elif way == "biases":
        model.requires_grad_(False)
        biases = [p for n, p in model.named_parameters() if n.endswith("bias")]
        norms = [p for n, p in model.named_parameters() if "norm" in n.lower()]
        for parameter in biases or norms:
            parameter.requires_grad_(True)
    for module in model.modules():  # a decoder may have its own configuration
        if hasattr(module, "config"):
            module.config.use_cache = False
    model.train()
    return model if name == "Mixtral" else model.double()


def logits_of(outputs):
    """Return the logits of a model's outputs, or its pooled outputs."""
    logits = outputs.get("logits")
    return outputs.pooler_output if logits is None else logits


def batch_of(name, rows, dtype):
    torch.manual_seed(2)
    inputs = ARCHITECTURES[name][1](rows)
    return {
        key: value.to(dtype) if value.is_floating_point() else value
        for key, value in inputs.items()
    }


def losses(logits, first=0):
    """Return a loss for each sample, of labels that its index gives."""
    each = torch.arange(logits[0, ..., 0].numel()).view(logits.shape[1:-1])
    rows = torch.arange(first, first + len(logits)).view(-1, *[1] * each.dim())
    labels = (5 * rows + each) % logits.shape[-1]
    values = F.cross_entropy(logits.movedim(-1, 1), labels, reduction="none")
    return values.flatten(1).mean(1) if values.dim() > 1 else values


def gradients_one_at_a_time(model, inputs):
    """Return the gradient of each sample, {name: [B, *shape]}, by one pass each."""
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    rows = len(next(iter(inputs.values())))
    every = {name: [] for name in named}
    for i in range(rows):
        outputs = model(**{key: value[i : i + 1] for key, value in inputs.items()})
        (loss,) = losses(logits_of(outputs), first=i)
        found = torch.autograd.grad(loss, [*named.values()], materialize_grads=True)
        for name, gradient in zip(named, found, strict=True):
            every[name].append(gradient)
    return {name: torch.stack(found) for name, found in every.items()}


def clipped(gradients, bound):
    """Return (the sum of the clipped gradients, the norms)."""
    norms = torch.stack([g.double().flatten(1).norm(dim=1) for g in gradients.values()])
    norms = norms.norm(dim=0)
    factors = (bound / norms).clamp(max=1.0)
    return {
        name: torch.einsum("b,b...->...", factors.to(g.dtype), g)
        for name, g in gradients.items()
    }, norms


def measured(name, way, engine="hooks"):
    """Return the largest relative error of the clipped sum; None for a rejection.

    The bound lies between the norms of the samples.
    """
    model = model_of(name, way)
    inputs = batch_of(name, SAMPLES, next(model.parameters()).dtype)
    gradients = gradients_one_at_a_time(model, inputs)
    bound = clipped(gradients, 1.0)[1].median().item()
    expected, norms = clipped(gradients, bound)
    assert 0 < (norms > bound).sum() < SAMPLES
    engine, optimizer = attached(
        model, engine=engine, max_grad_norm=bound, clipping_fn="Abadi"
    )
    try:
        loss = losses(logits_of(model(**inputs))).mean()
    except UnsupportedModuleError:
        return None
    loss.backward()
    optimizer.step()
    divisor = engine.plan.expected_batch_size
    found = {n: p.grad * divisor for n, p in model.named_parameters() if n in expected}
    engine.detach()
    largest = max(g.abs().max().item() for g in expected.values())
    return max((found[n] - g).abs().max().item() for n, g in expected.items()) / largest


def cell(name: str, way: str) -> str:
    """Return the table's text for a model: the engine whose sum is exact."""
    for engine, text in (("hooks", "exact"), ("microbatch", "`microbatch`")):
        error = measured(name, way, engine)
        if error is None:
            continue
        if not error <= TOLERANCE:
            raise ValueError(f"{name}, {way}: must be exact, got error {error:.1e}")
        return text
    return "rejected"
