//! Files that are not quite a model, and batches that are not quite a batch: each gets an error that names what is wrong.

use tapri_gguf::{Gguf, MetaValue, TensorType, TokenId, Value, ValueType, Writer};
use tapri_kernels::{Compute, Isa, KvStore};
use tapri_model::tiny::TinyModel;
use tapri_model::{ForwardError, LogitsWanted, Model, Scratch, SequenceBatch};

use crate::runner::tokens;

/// A tensor's dimensions, kind and data.
type Tensor = (Vec<usize>, TensorType, Vec<u8>);

/// A file in parts that a test may change.
pub(crate) struct Parts {
    metadata: Vec<(String, MetaValue)>,
    tensors: Vec<(String, Tensor)>,
}

impl Parts {
    fn of(recipe: &TinyModel) -> Parts {
        Parts::of_file(&recipe.gguf())
    }

    pub(crate) fn of_file(gguf: &Gguf) -> Parts {
        let metadata = gguf.metadata();
        Parts {
            metadata: metadata
                .keys()
                .map(|key| (key.to_owned(), meta(metadata.value(key).unwrap())))
                .collect(),
            tensors: gguf
                .tensors()
                .map(|tensor| tensor.unwrap())
                .map(|t| (t.name.to_owned(), (t.dims.to_vec(), t.kind, t.data.to_vec())))
                .collect(),
        }
    }

    pub(crate) fn set(mut self, key: &str, value: impl Into<MetaValue>) -> Parts {
        self.metadata.retain(|(name, _)| name != key);
        self.metadata.push((key.to_owned(), value.into()));
        self
    }

    fn without_key(mut self, key: &str) -> Parts {
        let before = self.metadata.len();
        self.metadata.retain(|(name, _)| name != key);
        assert_eq!(self.metadata.len(), before - 1);
        self
    }

    pub(crate) fn tensor(mut self, name: &str, tensor: Option<Tensor>) -> Parts {
        self.tensors.retain(|(other, _)| other != name);
        self.tensors.extend(tensor.map(|tensor| (name.to_owned(), tensor)));
        self
    }

    pub(crate) fn gguf(&self) -> Gguf {
        let mut writer = Writer::new();
        for (key, value) in &self.metadata {
            writer.set(key, value.clone());
        }
        for (name, (dims, kind, data)) in &self.tensors {
            writer.tensor(name, dims, *kind, data).unwrap();
        }
        Gguf::from_bytes(writer.to_bytes()).unwrap()
    }

    /// The message, with its sources, of the error that loading gives.
    fn refusal(&self) -> String {
        let error = Model::load(&self.gguf(), &Compute::new(Isa::Scalar, 1))
            .err()
            .expect("the file must be refused");
        let mut message = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            message += &format!(": {inner}");
            source = inner.source();
        }
        message
    }
}

fn meta(value: Value<'_>) -> MetaValue {
    match value {
        Value::Unsigned(v, ValueType::U32) => u32::try_from(v).unwrap().into(),
        Value::Signed(v, ValueType::I32) => i32::try_from(v).unwrap().into(),
        Value::F32(v) => v.into(),
        Value::Bool(v) => v.into(),
        Value::Str(v) => MetaValue::string(v),
        Value::Array(array) => MetaValue::array(array.entry_type(), array.iter().map(meta)),
        other => panic!("{other:?}"),
    }
}

/// Copies one entry of a file's metadata.
pub(crate) fn copy_entry(from: &Gguf, key: &str, to: &mut Writer) {
    to.set(key, meta(from.metadata().value(key).unwrap()));
}

fn llama() -> Parts {
    Parts::of(&TinyModel { layers: 1, ..TinyModel::llama() })
}

fn gemma() -> Parts {
    Parts::of(&TinyModel { layers: 6, ..TinyModel::gemma3() })
}

fn assert_mentions(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{message:?} does not mention {part:?}");
    }
}

#[test]
fn the_unchanged_files_load() {
    let compute = Compute::new(Isa::Scalar, 1);
    for parts in [llama(), gemma()] {
        Model::load(&parts.gguf(), &compute).unwrap();
    }
    for recipe in [TinyModel::llama3(), TinyModel::qwen2(), TinyModel::qwen3()] {
        Model::load(&Parts::of(&recipe).gguf(), &compute).unwrap();
    }
}

#[test]
fn unknown_architecture() {
    let message = llama().set("general.architecture", "mamba").refusal();
    assert_mentions(&message, &["\"mamba\"", "gemma3, llama"]);
    assert_mentions(
        &llama().without_key("general.architecture").refusal(),
        &["general.architecture"],
    );
    assert_mentions(
        &llama().set("general.architecture", 3_u32).refusal(),
        &["general.architecture"],
    );
}

#[test]
fn missing_keys() {
    for key in [
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
        "tokenizer.ggml.tokens",
    ] {
        assert_mentions(&llama().without_key(key).refusal(), &[key]);
    }
    let key = "gemma3.attention.sliding_window";
    assert_mentions(&gemma().without_key(key).refusal(), &[key]);
}

#[test]
fn nonsense_numbers() {
    for key in [
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "rope.dimension_count",
    ] {
        let key = format!("llama.{key}");
        for value in
            [MetaValue::from(0_u32), u32::MAX.into(), u64::MAX.into(), (-1_i32).into(), "8".into()]
        {
            assert_mentions(&llama().set(&key, value).refusal(), &[&key]);
        }
    }
    for value in [MetaValue::from(0_u32), u32::MAX.into()] {
        let key = "gemma3.attention.sliding_window";
        assert_mentions(&gemma().set(key, value).refusal(), &[key]);
    }
    for value in [0.0_f32, -1.0, f32::NAN, f32::INFINITY] {
        let key = "llama.attention.layer_norm_rms_epsilon";
        assert_mentions(&llama().set(key, value).refusal(), &[key]);
        let key = "llama.rope.freq_base";
        assert_mentions(&llama().set(key, value).refusal(), &[key]);
    }
}

#[test]
fn numbers_that_contradict_each_other() {
    let kv_heads = "llama.attention.head_count_kv";
    assert_mentions(
        &llama().set(kv_heads, 3_u32).refusal(),
        &[kv_heads, "8 query heads", "3 key-value"],
    );
    let per_layer: &[u32] = &[2, 2];
    assert_mentions(&llama().set(kv_heads, per_layer).refusal(), &[kv_heads, "array"]);
    let key_length = "llama.attention.key_length";
    assert_mentions(&llama().set(key_length, 33_u32).refusal(), &[key_length, "33"]);
    let value_length = "llama.attention.value_length";
    assert_mentions(&llama().set(value_length, 64_u32).refusal(), &[value_length, "64", "32"]);
    let rope = "llama.rope.dimension_count";
    assert_mentions(&llama().set(rope, 31_u32).refusal(), &[rope, "31"]);
    assert_mentions(&llama().set(rope, 64_u32).refusal(), &[rope, "64"]);
    let odd =
        llama().set("llama.attention.head_count", 6_u32).without_key("llama.attention.key_length");
    assert_mentions(&odd.refusal(), &["llama.attention.head_count", "64", "6 heads"]);
}

#[test]
fn features_that_would_change_the_results() {
    let scaling = "llama.rope.scaling.type";
    assert_mentions(&llama().set(scaling, "yarn").refusal(), &[scaling, "yarn"]);
    let linear = llama().set(scaling, "linear");
    assert_mentions(&linear.refusal(), &["llama.rope.scaling.factor"]);
    for key in ["llama.expert_count", "llama.attention.sliding_window"] {
        assert_mentions(&llama().set(key, 8_u32).refusal(), &[key]);
    }
    let cap = "gemma3.final_logit_softcapping";
    assert_mentions(&gemma().set(cap, 30.0_f32).refusal(), &[cap]);
    let bias = Some((vec![256], TensorType::F32, vec![0; 1024]));
    assert_mentions(
        &llama().tensor("blk.0.ffn_up.bias", bias).refusal(),
        &["blk.0.ffn_up.bias", "llama"],
    );
}

#[test]
fn tensors_that_do_not_fit() {
    for name in
        ["token_embd.weight", "output_norm.weight", "blk.0.attn_q.weight", "blk.0.ffn_down.weight"]
    {
        assert_mentions(&llama().tensor(name, None).refusal(), &[name, "missing"]);
    }
    for name in ["blk.5.attn_k_norm.weight", "blk.3.post_ffw_norm.weight"] {
        assert_mentions(&gemma().tensor(name, None).refusal(), &[name, "missing"]);
    }
    let name = "blk.0.attn_k.weight";
    let turned = Some((vec![32, 128], TensorType::F32, vec![0; 4 * 64 * 64]));
    assert_mentions(&llama().tensor(name, turned).refusal(), &[name, "[32, 128]", "[64, 64]"]);
    let deep = Some((vec![64, 32, 2], TensorType::F32, vec![0; 4 * 64 * 64]));
    assert_mentions(&llama().tensor(name, deep).refusal(), &[name, "[64, 32, 2]"]);
    let integers = Some((vec![64, 64], TensorType::I32, vec![0; 4 * 64 * 64]));
    assert_mentions(&llama().tensor(name, integers).refusal(), &[name, "I32", "Q8_0"]);
    let name = "blk.0.attn_norm.weight";
    let half = Some((vec![64], TensorType::F16, vec![0; 128]));
    assert_mentions(&llama().tensor(name, half).refusal(), &[name, "F16", "F32"]);
}

#[test]
fn batches_that_cannot_be_computed() {
    let compute = Compute::new(Isa::Scalar, 1);
    let recipe = TinyModel { layers: 6, context_length: 64, ..TinyModel::gemma3() };
    let model = Model::load(&recipe.gguf(), &compute).unwrap();
    let plan = model.kv_plan(16);
    let mut store = KvStore::new(plan.layout, 64).unwrap();
    let tokens = tokens(40, model.config().vocab_size, 1);
    let tables: Vec<Vec<u32>> = (0..6).map(|g| (0..4).map(|b| 1 + g * 4 + b).collect()).collect();
    let tables: Vec<&[u32]> = tables.iter().map(Vec::as_slice).collect();
    let good = SequenceBatch {
        tokens: &tokens,
        start: 0,
        blocks: &tables,
        logits: LogitsWanted::Last,
        adapter: None,
    };

    let mut logits = vec![1.0];
    let mut scratch = Scratch::new();
    let mut run = |store: &mut KvStore, batch: &[SequenceBatch<'_>]| {
        let result = model.forward(&compute, &mut scratch, store, batch, &mut logits);
        assert!(result.is_ok() || logits.is_empty());
        result
    };
    run(&mut store, &[good]).unwrap();
    run(&mut store, &[]).unwrap();
    run(&mut store, &[SequenceBatch { tokens: &[], ..good }]).unwrap();

    let strange = [TokenId(5), TokenId(320)];
    assert_eq!(
        run(&mut store, &[SequenceBatch { tokens: &strange, ..good }]),
        Err(ForwardError::Token { token: 320, vocab_size: 320 })
    );
    assert_eq!(
        run(&mut store, &[SequenceBatch { start: 25, ..good }]),
        Err(ForwardError::Context { length: 65, context_length: 64 })
    );
    assert!(run(&mut store, &[SequenceBatch { start: usize::MAX, ..good }]).is_err());
    assert_eq!(
        run(&mut store, &[SequenceBatch { blocks: &tables[..5], ..good }]),
        Err(ForwardError::Groups { sequence: 0, found: 5, expected: 6 })
    );
    for bad in [&[1_u32, 2][..], &[1, 0, 3, 4], &[1, 2, 64, 4]] {
        let mut blocks = tables.clone();
        blocks[3] = bad;
        let error =
            run(&mut store, &[good, SequenceBatch { blocks: &blocks, ..good }]).unwrap_err();
        assert!(matches!(error, ForwardError::Blocks { sequence: 1, group: 3, .. }), "{error}");
    }
    let mut other =
        KvStore::new(tapri_kernels::KvLayout { head_dim: 32, ..plan.layout }, 64).unwrap();
    assert_eq!(run(&mut other, &[good]), Err(ForwardError::Layout));
}
