"""Makes the golden files beside it: tiny random models of Hugging Face transformers as GGUF files, and their logits.

    pip install torch transformers gguf
    python make_golden.py

For each architecture NAME.gguf has the weights (F32, from a fixed seed) under the names and in the order of rows that
llama.cpp's converter gives them, and NAME.logits the logits that transformers computes for two sequences of tokens on
the CPU, in double precision. The tokenizer in the files is a placeholder of as many tokens as the vocabulary has.

Each sequence is computed twice: as it is, and with keys (after RoPE) and values rounded to bfloat16, which is how
Tapri keeps them by default. The second tells a rounding from a mistake.

NAME.logits, all little-endian: sequences (u32), vocabulary (u32), then for each sequence its length (u32), its tokens
(u32), the logits in exact arithmetic and those with rounded keys and values (f32, [length, vocabulary] each).
"""

import math
import pathlib
import struct

import gguf
import numpy as np
import torch
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.masking_utils import eager_mask

HERE = pathlib.Path(__file__).parent
VOCABULARY = 96
WINDOW = 16
LENGTHS = (30, 50)

COMMON = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=32,
    max_position_embeddings=512,
    rms_norm_eps=1e-5,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
    attention_dropout=0.0,
)

ROUNDED = False


def attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_):
    """Plain attention, with keys and values rounded where that is asked for."""
    if ROUNDED:
        key, value = (x.to(torch.bfloat16).to(x.dtype) for x in (key, value))
    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    scores = scores + attention_mask[:, :, :, : key.shape[-2]]
    out = torch.softmax(scores, dim=-1) @ value
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("plain_rounded", attention)
AttentionMaskInterface.register("plain_rounded", eager_mask)


def models():
    """The name of each golden file, its model, and its GGUF architecture."""
    llama3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0)
    # Of the 16 wavelengths 2 are below 64 / 4, 1 lies between, and 13 are above 64.
    llama3 |= dict(high_freq_factor=4.0, original_max_position_embeddings=64)
    yield "llama3", LlamaForCausalLM(LlamaConfig(**COMMON, rope_parameters=llama3)), "llama"
    linear = dict(rope_type="linear", rope_theta=10000.0, factor=4.0)
    biased = COMMON | dict(tie_word_embeddings=True, attention_bias=True)
    yield "llama-linear-bias", LlamaForCausalLM(LlamaConfig(**biased, rope_parameters=linear)), "llama"
    # A GGUF file of Mistral has no window (nor has Mistral since version 0.2).
    plain = dict(rope_type="default", rope_theta=1000000.0)
    mistral = MistralConfig(**COMMON, sliding_window=None, rope_parameters=plain)
    yield "mistral", MistralForCausalLM(mistral), "llama"
    tied = COMMON | dict(tie_word_embeddings=True)
    # Qwen2 has no head_dim of its own: its heads share the width.
    square = {key: value for key, value in COMMON.items() if key != "head_dim"}
    qwen2 = Qwen2Config(**square | dict(hidden_size=64), rope_parameters=plain)
    yield "qwen2", Qwen2ForCausalLM(qwen2), "qwen2"
    yield "qwen3", Qwen3ForCausalLM(Qwen3Config(**tied, rope_parameters=plain)), "qwen3"
    # Layers 1 to 5 and 7 have windows, layer 6 sees everything with positions divided by 8, as in the larger models.
    gemma3 = Gemma3TextConfig(
        **tied | dict(num_hidden_layers=7, hidden_activation="gelu_pytorch_tanh"),
        query_pre_attn_scalar=32,
        sliding_window=WINDOW,
        rope_parameters={
            "full_attention": dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
            "sliding_attention": dict(rope_type="default", rope_theta=10000.0),
        },
    )
    yield "gemma3", Gemma3ForCausalLM(gemma3), "gemma3"


def randomise(model, generator) -> None:
    """Weights that make every part count: biases and norms too, which transformers starts at 0 and 1."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            fan_in = parameter.shape[1] if "embed_tokens" not in name else parameter.shape[1] ** 0.5
            spread, centre = 1.5 / math.sqrt(fan_in), 0.0
        elif name.endswith("bias"):
            spread, centre = 0.5, 0.0
        else:
            # Gemma adds 1 to the weights of its norms.
            spread, centre = 0.3, 0.0 if model.config.model_type.startswith("gemma") else 1.0
        values = torch.randn(parameter.shape, generator=generator) * spread + centre
        with torch.no_grad():
            parameter.copy_(values)


NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str, architecture: str) -> str:
    stem, _, kind = name.rpartition(".")
    if not stem.startswith("model.layers."):
        return f"{NAMES[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    if part == "post_attention_layernorm":
        # In Gemma this is a norm of attention's output, elsewhere the one before the feed-forward network.
        part = "post_attention_norm" if architecture == "gemma3" else "ffn_norm"
    else:
        gemma = {
            "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm",
        }
        part = gemma.get(part) or NAMES[part]
    return f"blk.{layer}.{part}.{kind}"


def interleaved(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a head in the order of RoPE that turns neighbours, from that which turns halves."""
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


def rope_factors(rope: dict, head_dim: int) -> np.ndarray:
    """What Llama 3 divides its frequencies by (section "RoPE scaling" of Meta's reference code)."""
    factors = []
    for pair in range(head_dim // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * pair / head_dim)
        turns = rope["original_max_position_embeddings"] / wavelength
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        factors.append(1.0 / ((1.0 - smooth) / rope["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def write_gguf(name: str, model, architecture: str) -> None:
    config = model.config
    writer = gguf.GGUFWriter(HERE / f"{name}.gguf", architecture)
    writer.add_name(f"tiny random {name}")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if architecture != "qwen2":
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if architecture == "llama":
        writer.add_rope_dimension_count(head_dim)
    rope = config.rope_parameters
    rope = rope.get("full_attention", rope)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if architecture == "gemma3":
        writer.add_sliding_window(config.sliding_window)
    tokens = [f"<{token}>" for token in range(VOCABULARY)]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([1] * VOCABULARY)
    for parameter, tensor in model.state_dict().items():
        if parameter == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.to(torch.float32).numpy()
        if architecture == "llama" and "q_proj" in parameter:
            values = interleaved(values, config.num_attention_heads)
        if architecture == "llama" and "k_proj" in parameter:
            values = interleaved(values, config.num_key_value_heads)
        if architecture == "gemma3" and parameter.endswith("norm.weight"):
            values = values + np.float32(1.0)
        writer.add_tensor(gguf_name(parameter, architecture), np.ascontiguousarray(values))
    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(rope, head_dim))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    global ROUNDED
    for name, model, architecture in models():
        generator = torch.Generator().manual_seed(20240501)
        randomise(model, generator)
        write_gguf(name, model, architecture)
        if architecture == "gemma3":
            # The embedding's scale is kept in single precision by transformers.
            assert math.isclose(float(model.model.embed_tokens.embed_scale), 32**0.5, rel_tol=1e-7)
        model = model.eval().to(torch.float64)
        model.set_attn_implementation("plain_rounded")
        out = bytearray(struct.pack("<II", len(LENGTHS), VOCABULARY))
        for length in LENGTHS:
            tokens = torch.randint(VOCABULARY, (1, length), generator=generator)
            both = []
            for ROUNDED in (False, True):
                with torch.no_grad():
                    logits = model(tokens, use_cache=False).logits[0].to(torch.float32).numpy()
                assert logits.shape == (length, VOCABULARY) and np.isfinite(logits).all()
                both.append(logits)
            # The same in transformers' own eager attention, so that nothing depends on the one above.
            model.set_attn_implementation("eager")
            with torch.no_grad():
                eager = model(tokens, use_cache=False).logits[0].to(torch.float32).numpy()
            model.set_attn_implementation("plain_rounded")
            print(
                f"{name}: {length} tokens, spread {both[0].std():.3f}, eager differs {abs(eager - both[0]).max():.1e},"
                f" rounding moves {abs(both[1] - both[0]).max():.1e}"
            )
            assert abs(eager - both[0]).max() < 1e-4
            out += struct.pack("<I", length) + tokens[0].numpy().astype("<u4").tobytes()
            out += b"".join(logits.astype("<f4").tobytes() for logits in both)
        (HERE / f"{name}.logits").write_bytes(out)


main()
