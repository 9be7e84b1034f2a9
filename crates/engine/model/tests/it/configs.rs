//! What each architecture's metadata comes to: the facts of published models, from metadata as llama.cpp's converter writes it.

use tapri_gguf::{Gguf, MetaValue, TensorType, Writer};
use tapri_kernels::{Compute, Isa};
use tapri_model::tiny::TinyModel;
use tapri_model::{AttentionBias, LoadError, Model, ModelConfig, RopePairs};

/// The configuration of a file with this metadata (keys without the architecture) and 8 tokens.
fn config(architecture: &str, entries: &[(&str, MetaValue)]) -> Result<ModelConfig, LoadError> {
    let mut writer = Writer::new();
    writer.set("general.architecture", architecture);
    writer.set("tokenizer.ggml.tokens", &["a", "b", "c", "d", "e", "f", "g", "h"][..]);
    for (key, value) in entries {
        writer.set(&format!("{architecture}.{key}"), value.clone());
    }
    ModelConfig::from_gguf(&Gguf::from_bytes(writer.to_bytes()).unwrap())
}

/// Layers, width, heads, key-value heads, feed-forward width, context.
type Sizes = [u32; 6];

fn sizes(sizes: Sizes) -> Vec<(&'static str, MetaValue)> {
    let keys = [
        "block_count",
        "embedding_length",
        "attention.head_count",
        "attention.head_count_kv",
        "feed_forward_length",
        "context_length",
    ];
    let mut entries: Vec<(&str, MetaValue)> =
        keys.into_iter().zip(sizes.map(MetaValue::from)).collect();
    entries.push(("attention.layer_norm_rms_epsilon", 1e-6_f32.into()));
    entries
}

fn gemma(of: Sizes, head_dim: u32, window: u32, scaled: bool) -> ModelConfig {
    let mut entries = sizes(of);
    entries.extend([
        ("attention.key_length", head_dim.into()),
        ("attention.value_length", head_dim.into()),
        ("attention.sliding_window", window.into()),
        ("rope.freq_base", 1_000_000_f32.into()),
    ]);
    if scaled {
        entries.push(("rope.scaling.type", "linear".into()));
        entries.push(("rope.scaling.factor", 8_f32.into()));
    }
    config("gemma3", &entries).unwrap()
}

/// The configurations that Google publishes (`config.json` of each model).
#[test]
fn the_sizes_of_gemma_3() {
    for (of, head_dim, window, scaled, query_scale) in [
        ([18, 640, 4, 1, 2048, 32_768], 256, 512, false, 256.0_f32),
        ([26, 1152, 4, 1, 6912, 32_768], 256, 512, false, 256.0),
        ([34, 2560, 8, 4, 10_240, 131_072], 256, 1024, true, 256.0),
        ([48, 3840, 16, 8, 15_360, 131_072], 256, 1024, true, 256.0),
        ([62, 5376, 32, 16, 21_504, 131_072], 128, 1024, true, 168.0),
    ] {
        let config = gemma(of, head_dim, window, scaled);
        let name = format!("{} layers", of[0]);
        assert_eq!(config.attention_scale, 1.0 / query_scale.sqrt(), "{name}");
        assert_eq!(config.embedding_scale, (of[1] as f32).sqrt(), "{name}");
        assert!(config.qk_norm && config.post_norms && !config.rope_factors, "{name}");
        assert_eq!(config.layers.len(), of[0] as usize);
        for (index, layer) in config.layers.iter().enumerate() {
            let global = index % 6 == 5;
            assert_eq!(layer.window, (!global).then_some(window as usize), "{name}, {index}");
            let (base, scale) =
                if global { (1e6, if scaled { 0.125 } else { 1.0 }) } else { (1e4, 1.0) };
            assert_eq!((layer.rope.base, layer.rope.scale), (base, scale), "{name}, {index}");
        }
    }
}

#[test]
fn qwen2_and_qwen3() {
    // Qwen2.5 0.5B: 14 heads of 64, without a key length of its own.
    let mut entries = sizes([24, 896, 14, 2, 4864, 32_768]);
    entries.push(("rope.freq_base", 1_000_000_f32.into()));
    let qwen2 = config("qwen2", &entries).unwrap();
    assert_eq!((qwen2.head_dim, qwen2.rope_dims, qwen2.query_width()), (64, 64, 896));
    assert_eq!(qwen2.rope_pairs, RopePairs::Halves);
    assert_eq!(qwen2.attention_bias, AttentionBias::QueryKeyValue);
    assert!(!qwen2.qk_norm && qwen2.layers[0].rope.base == 1e6);

    // Qwen3 0.6B: 16 heads of 128 beside a residual stream of 1,024.
    let mut entries = sizes([28, 1024, 16, 8, 3072, 40_960]);
    entries.extend([
        ("attention.key_length", 128_u32.into()),
        ("attention.value_length", 128_u32.into()),
        ("rope.freq_base", 1_000_000_f32.into()),
    ]);
    let qwen3 = config("qwen3", &entries).unwrap();
    assert_eq!((qwen3.head_dim, qwen3.query_width(), qwen3.kv_width()), (128, 2048, 1024));
    assert_eq!(qwen3.rope_pairs, RopePairs::Halves);
    assert_eq!(qwen3.attention_bias, AttentionBias::None);
    assert!(qwen3.qk_norm && !qwen3.post_norms);
    assert_eq!(qwen3.attention_scale, 1.0 / 128_f32.sqrt());
}

#[test]
fn mistral_nemo_has_heads_narrower_than_its_width() {
    let mut entries = sizes([40, 5120, 32, 8, 14_336, 131_072]);
    entries.extend([
        ("attention.key_length", 128_u32.into()),
        ("attention.value_length", 128_u32.into()),
        ("rope.dimension_count", 128_u32.into()),
        ("rope.freq_base", 1_000_000_f32.into()),
    ]);
    let nemo = config("llama", &entries).unwrap();
    assert_eq!((nemo.head_dim, nemo.query_width(), nemo.rope_dims), (128, 4096, 128));
    assert_eq!(nemo.rope_pairs, RopePairs::Interleaved);
    assert!(nemo.rope_factors && nemo.layers.iter().all(|layer| layer.window.is_none()));
}

#[test]
fn linear_scaling_under_each_of_its_names() {
    let with = |more: &[(&str, MetaValue)]| {
        let mut entries = sizes([1, 64, 2, 1, 64, 128]);
        entries.extend_from_slice(more);
        config("llama", &entries).map(|config| config.layers[0].rope.scale)
    };
    let linear = || ("rope.scaling.type", MetaValue::from("linear"));
    let factor = |key| (key, MetaValue::from(4_f32));
    assert_eq!(with(&[]).unwrap(), 1.0);
    assert_eq!(with(&[linear(), factor("rope.scaling.factor")]).unwrap(), 0.25);
    assert_eq!(with(&[factor("rope.scaling.factor")]).unwrap(), 0.25);
    assert_eq!(with(&[factor("rope.scale_linear")]).unwrap(), 0.25);
    let none = ("rope.scaling.type", MetaValue::from("none"));
    assert_eq!(with(&[none, factor("rope.scaling.factor")]).unwrap(), 1.0);
    for (key, value) in [
        ("rope.scaling.factor", MetaValue::from(0.5_f32)),
        ("rope.scale_linear", f32::NAN.into()),
        ("rope.scaling.attn_factor", 1.2_f32.into()),
        ("rope.scaling.type", "yarn".into()),
        ("rope.scaling.type", "longrope".into()),
    ] {
        let message = with(&[(key, value)]).unwrap_err().to_string();
        assert!(message.contains(&format!("llama.{key}")), "{message}");
    }
}

#[test]
fn what_would_change_the_results_is_refused_in_every_architecture() {
    for (architecture, recipe) in [
        ("llama", TinyModel::llama()),
        ("qwen2", TinyModel::qwen2()),
        ("qwen3", TinyModel::qwen3()),
        ("gemma3", TinyModel::gemma3()),
    ] {
        let refused = |key: &str, value: MetaValue| {
            let mut writer = recipe.writer();
            writer.set(&format!("{architecture}.{key}"), value);
            let gguf = Gguf::from_bytes(writer.to_bytes()).unwrap();
            let message = ModelConfig::from_gguf(&gguf).unwrap_err().to_string();
            assert!(message.contains(&format!("`{architecture}.{key}`")), "{message}");
        };
        refused("expert_count", 8_u32.into());
        for key in [
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "attention.clamp_kqv",
            "attention.scale",
            "attention.temperature_scale",
            "embedding_scale",
            "residual_scale",
            "logit_scale",
        ] {
            refused(key, 0.5_f32.into());
        }
        refused("rope.scaling.type", "yarn".into());
        refused("attention.causal", false.into());
        refused("use_parallel_residual", true.into());
        if architecture != "gemma3" {
            refused("attention.sliding_window", 4096_u32.into());
        }
    }
}

fn refusal(recipe: &TinyModel, name: &str, dims: &[usize], data: &[f32]) -> String {
    let mut writer = recipe.writer();
    let data: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    writer.tensor(name, dims, TensorType::F32, &data).unwrap();
    let gguf = Gguf::from_bytes(writer.to_bytes()).unwrap();
    Model::load(&gguf, &Compute::new(Isa::Scalar, 1)).err().unwrap().to_string()
}

#[test]
fn biases_and_factors_where_no_one_knows_them_are_named() {
    let zeros = vec![0.0; 256];
    for (recipe, name, len) in [
        (TinyModel::qwen3(), "blk.0.attn_q.bias", 256),
        (TinyModel::gemma3(), "blk.0.attn_v.bias", 64),
        (TinyModel::qwen2(), "blk.0.attn_output.bias", 64),
        (TinyModel::qwen2(), "rope_freqs.weight", 16),
        (TinyModel::llama(), "blk.0.attn_q_norm.weight", 32),
        (TinyModel::llama(), "rope_factors_long.weight", 16),
    ] {
        let message = refusal(&recipe, name, &[len], &zeros[..len]);
        assert!(message.contains(name) && message.contains("not part of"), "{message}");
    }
    let name = "rope_freqs.weight";
    for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let message = refusal(&TinyModel::llama(), name, &[16], &[bad; 16]);
        assert!(message.contains(name) && message.contains("no factor"), "{message}");
    }
    let message = refusal(&TinyModel::llama(), name, &[8], &[1.0; 8]);
    assert!(message.contains(name) && message.contains("[8]"), "{message}");
    let message = refusal(&TinyModel::llama(), "blk.0.attn_k.bias", &[8], &[1.0; 8]);
    assert!(message.contains("blk.0.attn_k.bias") && message.contains("[8]"), "{message}");
}

/// A matrix in each of the formats is taken; what is not among them is named (`errors.rs`).
#[test]
fn every_format_of_a_matrix_loads() {
    use TensorType as T;
    let kinds = [
        T::F32,
        T::F16,
        T::Bf16,
        T::Q4_0,
        T::Q4_1,
        T::Q5_0,
        T::Q5_1,
        T::Q8_0,
        T::Q4K,
        T::Q5K,
        T::Q6K,
    ];
    for kind in kinds {
        let recipe = TinyModel::llama();
        let original = recipe.gguf();
        let mut writer = Writer::new();
        for key in original.metadata().keys() {
            crate::errors::copy_entry(&original, key, &mut writer);
        }
        for tensor in original.tensors() {
            let tensor = tensor.unwrap();
            if tensor.name == "blk.1.ffn_down.weight" {
                let data = vec![0; 64 * 256 / kind.block_len() * kind.block_bytes()];
                writer.tensor(tensor.name, &[256, 64], kind, &data).unwrap();
            } else {
                writer.tensor(tensor.name, tensor.dims, tensor.kind, tensor.data).unwrap();
            }
        }
        let gguf = Gguf::from_bytes(writer.to_bytes()).unwrap();
        Model::load(&gguf, &Compute::new(Isa::Scalar, 1)).unwrap();
    }
}
