//! Adapters: the same logits as a merged model's, the same bits in any company, and files that are not quite an adapter.

use tapri_gguf::{Gguf, TensorType, TokenId, Writer};
use tapri_kernels::{Compute, Isa, KvStore};
use tapri_model::tiny::{TinyAdapter, TinyModel, TinyWeights};
use tapri_model::{
    Adapter, ForwardError, LogitsWanted, Model, ModelConfig, Scratch, SequenceBatch,
};

use crate::runner::{Blocks, Part, Runner, first_difference, isas, tokens};

const LENGTH: usize = 90;

fn config(recipe: &TinyModel) -> ModelConfig {
    ModelConfig::from_gguf(&recipe.gguf()).unwrap()
}

fn recipe_of(model: &TinyModel) -> TinyAdapter {
    TinyAdapter::of(&config(model))
}

/// All logits of a sequence, with an adapter or without.
fn logits(
    model: &Model,
    compute: &Compute,
    adapter: Option<&Adapter>,
    tokens: &[TokenId],
    chunk: usize,
) -> Vec<f32> {
    let mut runner = Runner::new(model, compute, 16, &[tokens.len()], Blocks::Shuffled);
    runner.sequences[0].adapter = adapter;
    runner.chunked(0, tokens, 0, chunk)
}

/// The largest difference, as a share of the spread of the second.
fn difference(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().chain(b).all(|x| x.is_finite()));
    let square = |x: f32| f64::from(x).powi(2);
    let spread = (b.iter().map(|&x| square(x)).sum::<f64>() / b.len() as f64).sqrt();
    let most = a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
    most / spread
}

/// In float weights the two ways differ by the rounding of sums, and by what that does to K and V, which are stored in bf16: a
/// value that is rounded to its other neighbour moves by 1/256 of itself. Measured: up to 0.006 of the logits' spread.
#[test]
#[allow(clippy::print_stdout, reason = "the measured difference is worth reading")]
fn an_adapter_gives_the_logits_of_a_merged_model() {
    const BOUND: f64 = 0.02;
    for recipe in [TinyModel::llama(), TinyModel::gemma3(), TinyModel::qwen2(), TinyModel::qwen3()]
    {
        let compute = Compute::new(Isa::best(), 2);
        let model = Model::load(&recipe.gguf(), &compute).unwrap();
        let vocab = model.config().vocab_size;
        let text = tokens(LENGTH, vocab, 1);
        let base = logits(&model, &compute, None, &text, LENGTH);
        let mut whole = recipe_of(&recipe);
        if recipe == TinyModel::llama() {
            whole.matrices.push(("output.weight".to_owned(), vocab, model.config().width));
        }
        let of_part = |part: &str| {
            let matrices = whole.matrices.iter().filter(|(name, ..)| name.contains(part));
            TinyAdapter { matrices: matrices.cloned().collect(), ..whole.clone() }
        };
        // Each kind of matrix alone, so that none hides behind another.
        let mut parts: Vec<_> = ["attn_q", "attn_k", "attn_v", "attn_output", "gate", "up", "down"]
            .into_iter()
            .map(|part| (part, of_part(part)))
            .collect();
        parts.push(("all", whole.clone()));
        parts.push(("rank 1", TinyAdapter { rank: 1, alpha: 0.5, ..whole.clone() }));
        if recipe == TinyModel::llama() {
            parts.push(("output", of_part("output.weight")));
        }
        for (part, recipe_of_adapter) in parts {
            let adapter = Adapter::load(&recipe_of_adapter.gguf(), &model, &compute).unwrap();
            assert_eq!(adapter.matrices(), recipe_of_adapter.matrices.len());
            let ours = logits(&model, &compute, Some(&adapter), &text, LENGTH);
            let merged = Model::load(&recipe.merged(&recipe_of_adapter), &compute).unwrap();
            let expected = logits(&merged, &compute, None, &text, LENGTH);
            let (off, moved) = (difference(&ours, &expected), difference(&ours, &base));
            println!("{:?} {part}: {off:.5} off, moved by {moved:.3}", recipe.architecture);
            assert!(off < BOUND, "{:?} {part}: {off}", recipe.architecture);
            assert!(
                moved > 20.0 * BOUND,
                "{:?} {part} changes little: {moved}",
                recipe.architecture
            );
        }
    }
}

#[test]
fn every_kind_of_storage_is_read_as_the_same_floats() {
    let recipe = TinyModel::llama();
    let compute = Compute::new(Isa::best(), 1);
    let model = Model::load(&recipe.gguf(), &compute).unwrap();
    let text = tokens(40, model.config().vocab_size, 2);
    for kind in [TensorType::F32, TensorType::F16, TensorType::Bf16, TensorType::Q8_0] {
        for rank in [8, 32] {
            let stored = TinyAdapter { kind, rank, ..recipe_of(&recipe) };
            let floats = Gguf::from_bytes(stored.writer_of_floats().to_bytes()).unwrap();
            let [stored, floats] =
                [stored.gguf(), floats].map(|gguf| Adapter::load(&gguf, &model, &compute).unwrap());
            assert_eq!(stored.bytes(), floats.bytes());
            let [a, b] = [&stored, &floats]
                .map(|adapter| logits(&model, &compute, Some(adapter), &text, 40));
            assert_eq!(first_difference(&a, &b), None, "{kind} of rank {rank}");
        }
    }
}

/// Every case for one model on one path: alone in one chunk on one thread against everything else.
fn check_company(recipe: &TinyModel, isa: Isa) {
    let one = Compute::new(isa, 1);
    let two = Compute::new(isa, 2);
    let model = Model::load(&recipe.gguf(), &one).unwrap();
    let vocab = model.config().vocab_size;
    let adapters = [1, 2].map(|seed| {
        let mut adapter = TinyAdapter { rank: 4 * seed as usize, ..recipe_of(recipe).seed(seed) };
        // The second leaves some matrices as they are.
        adapter.matrices.retain(|(name, ..)| seed == 1 || !name.contains("attn"));
        Adapter::load(&adapter.gguf(), &model, &one).unwrap()
    });
    // Base, first, second, base, first.
    let with = [None, Some(&adapters[0]), Some(&adapters[1]), None, Some(&adapters[0])];
    let texts: Vec<_> =
        [LENGTH, 30, 75, 1, LENGTH].iter().map(|&n| tokens(n, vocab, n as u64)).collect();
    let alone: Vec<_> = (texts.iter().zip(with))
        .map(|(text, adapter)| logits(&model, &one, adapter, text, LENGTH))
        .collect();
    assert!(alone.iter().flatten().all(|x| x.is_finite()));
    assert!(first_difference(&alone[0], &alone[4]).is_some(), "the adapter does something");
    let name = format!("{:?} {:?} {isa:?}", recipe.architecture, recipe.weights);
    for (text, adapter, expected) in [(0, with[0], 0), (0, with[1], 4), (2, with[2], 2)] {
        for (compute, chunk) in [(&one, 1), (&two, 7), (&two, 16), (&two, 100)] {
            let ours = logits(&model, compute, adapter, &texts[text], chunk);
            assert_eq!(
                first_difference(&ours, &alone[expected]),
                None,
                "{name}, chunks of {chunk}"
            );
        }
    }
    // All in one batch, each in chunks of its own, so that the batch's shape changes all the time.
    for compute in [&one, &two] {
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        let mut runner = Runner::new(&model, compute, 16, &lengths, Blocks::Shuffled);
        for (sequence, adapter) in runner.sequences.iter_mut().zip(with) {
            sequence.adapter = adapter;
        }
        let mut seen: Vec<Vec<f32>> = vec![Vec::new(); texts.len()];
        for step in 0..15 {
            let parts: Vec<Part<'_>> = (texts.iter().enumerate())
                .filter_map(|(sequence, text)| {
                    let size = [9, 2, 40, 1, 30][sequence];
                    let (start, end) = ((step * size).min(text.len()), (step + 1) * size);
                    let tokens = &text[start..end.min(text.len())];
                    let part = Part { sequence, tokens, start, logits: LogitsWanted::All };
                    (!tokens.is_empty()).then_some(part)
                })
                .collect();
            let out = runner.forward(&parts);
            let mut rows = out.chunks_exact(vocab);
            for part in &parts {
                seen[part.sequence].extend(rows.by_ref().take(part.tokens.len()).flatten());
            }
        }
        for (sequence, (ours, expected)) in seen.iter().zip(&alone).enumerate() {
            assert_eq!(
                first_difference(ours, expected),
                None,
                "{name}, sequence {sequence} in company, {} threads",
                compute.threads()
            );
        }
    }
    // Some rows' logits alone: the last layer computes those only.
    let mut runner = Runner::new(&model, &two, 16, &[30, LENGTH, 75], Blocks::InOrder);
    let order = [1, 0, 2];
    let mut parts = Vec::new();
    for (sequence, text) in order.into_iter().enumerate() {
        runner.sequences[sequence].adapter = with[text];
        let logits = if sequence == 1 { LogitsWanted::None } else { LogitsWanted::Last };
        parts.push(Part { sequence, tokens: &texts[text], start: 0, logits });
    }
    let out = runner.forward(&parts);
    let last = |text: usize| &alone[text][(texts[text].len() - 1) * vocab..];
    assert_eq!(first_difference(&out, &[last(1), last(2)].concat()), None, "{name}, last rows");
}

#[test]
fn company_changes_no_bit() {
    for isa in isas() {
        let short = |model: TinyModel| TinyModel { layers: 2, ..model };
        check_company(&short(TinyModel::llama()), isa);
        check_company(&short(TinyModel::qwen2()).weights(TinyWeights::Q4_1), isa);
        // Six: one that sees everything after five that don't.
        let gemma = TinyModel { layers: 6, ..TinyModel::gemma3() };
        check_company(&gemma.weights(TinyWeights::Mixed), isa);
    }
}

#[test]
fn a_chunk_of_more_rows_than_go_together_is_the_same() {
    let recipe = TinyModel { layers: 2, ..TinyModel::llama() };
    let compute = Compute::new(Isa::best(), 2);
    let model = Model::load(&recipe.gguf(), &compute).unwrap();
    let adapter = Adapter::load(&recipe_of(&recipe).gguf(), &model, &compute).unwrap();
    let text = tokens(600, model.config().vocab_size, 3);
    let whole = logits(&model, &compute, Some(&adapter), &text, 600);
    let pieces = logits(&model, &compute, Some(&adapter), &text, 64);
    assert_eq!(first_difference(&whole, &pieces), None);
}

#[test]
fn the_digest_is_the_contents() {
    let recipe = TinyModel { layers: 1, ..TinyModel::llama() };
    let compute = Compute::new(Isa::Scalar, 1);
    let model = Model::load(&recipe.gguf(), &compute).unwrap();
    let own = recipe_of(&recipe);
    let load = |adapter: &TinyAdapter| Adapter::load(&adapter.gguf(), &model, &compute).unwrap();
    let first = load(&own);
    assert_eq!(first.digest(), Adapter::digest_of(&own.gguf()).unwrap());
    assert_eq!(first.digest(), load(&own).digest());
    let mut turned = own.clone();
    turned.matrices.reverse();
    assert_eq!(first.digest(), load(&turned).digest(), "the order in the file says nothing");
    let mut fewer = own.clone();
    fewer.matrices.pop();
    let others = [
        own.clone().seed(2),
        TinyAdapter { alpha: 17.0, ..own.clone() },
        fewer,
        TinyAdapter { kind: TensorType::F16, ..own },
    ];
    let mut seen = vec![first.digest()];
    for other in &others {
        let other = load(other);
        assert!(!seen.contains(&other.digest()));
        assert_ne!(other.fingerprint(), first.fingerprint());
        seen.push(other.digest());
    }
    assert_ne!(first.fingerprint(), model.fingerprint());
    assert_eq!((first.rank(), first.alpha(), first.matrices()), (8, 16.0, 7));
    // 16 columns of the product are packed together: a rank of 8 takes the space of 16 in A.
    assert!(first.bytes() >= 4 * 8 * (64 + 256), "{}", first.bytes());
}

#[test]
fn files_that_are_not_quite_an_adapter_are_refused_by_name() {
    let recipe = TinyModel { layers: 2, ..TinyModel::llama() };
    let compute = Compute::new(Isa::Scalar, 1);
    let model = Model::load(&recipe.gguf(), &compute).unwrap();
    let own = recipe_of(&recipe);
    let refusal_of = |model: &Model, writer: &Writer| {
        let gguf = Gguf::from_bytes(writer.to_bytes()).unwrap();
        Adapter::load(&gguf, model, &compute).expect_err("it must be refused").to_string()
    };
    let refusal = |writer: &Writer| refusal_of(&model, writer);
    let only = |name: &str, rows, columns| TinyAdapter {
        matrices: vec![(name.to_owned(), rows, columns)],
        ..own.clone()
    };
    let cases = [
        refusal(&recipe.writer()),
        refusal(&TinyAdapter { architecture: "gemma3".to_owned(), ..own.clone() }.writer()),
        refusal(&TinyAdapter { alpha: 0.0, ..own.clone() }.writer()),
        refusal(&TinyAdapter { matrices: Vec::new(), ..own.clone() }.writer()),
        refusal(&only("blk.0.attn_q.weight", 256, 32).writer()),
        refusal(&only("blk.0.attn_k.weight", 256, 64).writer()),
        refusal(&only("blk.2.attn_q.weight", 256, 64).writer()),
        refusal(&only("blk.00.attn_q.weight", 256, 64).writer()),
        refusal(&only("blk.0.attn_norm.weight", 64, 64).writer()),
        refusal(&only("token_embd.weight", 320, 64).writer()),
        refusal(own.writer().set("adapter.alora.invocation_tokens", &[1_u32][..])),
        refusal(
            own.writer().tensor("blk.0.attn_norm.weight", &[1], TensorType::F32, &[0; 4]).unwrap(),
        ),
        refusal(
            only("blk.0.ffn_up.weight", 256, 64)
                .writer()
                .tensor("blk.1.ffn_up.weight.lora_b", &[8, 256], TensorType::F32, &[0; 8192])
                .unwrap(),
        ),
        refusal(&{
            let mut writer = TinyAdapter { matrices: Vec::new(), ..own.clone() }.writer();
            let nan = f32::NAN.to_le_bytes().repeat(64);
            writer.tensor("blk.0.attn_q.weight.lora_a", &[64, 1], TensorType::F32, &nan).unwrap();
            let zero = [0; 1024];
            writer.tensor("blk.0.attn_q.weight.lora_b", &[1, 256], TensorType::F32, &zero).unwrap();
            writer
        }),
        refusal(&{
            let mut writer = TinyAdapter { matrices: Vec::new(), ..own.clone() }.writer();
            let (a, b) = ([0; 2 * 20], [0; 1024]);
            writer.tensor("blk.0.attn_q.weight.lora_a", &[64, 1], TensorType::Q4_1, &a).unwrap();
            writer.tensor("blk.0.attn_q.weight.lora_b", &[1, 256], TensorType::F32, &b).unwrap();
            writer
        }),
    ];
    let expected = [
        "it is not a LoRA adapter: `general.type` is missing, not \"adapter\"",
        "it is for the architecture \"gemma3\", and the model's is \"llama\": it was made for another model",
        "`adapter.lora.alpha` is 0, which is no factor",
        "it has no tensors",
        "tensor `blk.0.attn_q.weight.lora_a` has the shape [32, 8], but this model calls for [64, rank]",
        "tensor `blk.0.attn_k.weight.lora_b` has the shape [8, 256], but this model calls for [8, 64], 8 being the rank of its pair",
        "tensor `blk.2.attn_q.weight.lora_a` can't be applied: the model has 2 layers",
        "tensor `blk.00.attn_q.weight.lora_a` can't be applied: an adapter may change attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down and output, and this is none of them",
        "tensor `blk.0.attn_norm.weight.lora_a` can't be applied: an adapter may change attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down and output, and this is none of them",
        "tensor `token_embd.weight.lora_a` can't be applied: changes to the token embedding are not supported",
        "metadata key `adapter.alora.invocation_tokens` asks for an adapter that begins at certain tokens (aLoRA), which is not supported",
        "tensor `blk.0.attn_norm.weight` can't be applied: its name ends neither in .lora_a nor in .lora_b",
        "tensor `blk.1.ffn_up.weight.lora_a` is missing: its pair has the other half alone",
        "tensor `blk.0.attn_q.weight.lora_a` holds values that are not finite",
        "tensor `blk.0.attn_q.weight.lora_a` is stored as Q4_1, which is not supported here (supported: F32, F16, BF16, Q8_0)",
    ];
    for (case, expected) in cases.iter().zip(expected) {
        assert_eq!(case, expected);
    }
    // A model without a head of its own.
    let gemma = TinyModel { layers: 1, ..TinyModel::gemma3() };
    let tied = Model::load(&gemma.gguf(), &compute).unwrap();
    let mut head = TinyAdapter { matrices: Vec::new(), ..recipe_of(&gemma) };
    head.matrices.push(("output.weight".to_owned(), 320, 64));
    let said = refusal_of(&tied, &head.writer());
    assert!(said.contains("output.weight") && said.contains("token embedding"), "{said}");
}

#[test]
fn an_adapter_of_another_shape_is_refused_by_the_pass() {
    let compute = Compute::new(Isa::Scalar, 1);
    let small = TinyModel { layers: 1, ..TinyModel::llama() };
    let large = TinyModel { layers: 2, ..TinyModel::llama() };
    let model = Model::load(&large.gguf(), &compute).unwrap();
    let other = Model::load(&small.gguf(), &compute).unwrap();
    let adapter = Adapter::load(&recipe_of(&small).gguf(), &other, &compute).unwrap();
    let mut store = KvStore::new(model.kv_plan(16).layout, 2).unwrap();
    let batch = [SequenceBatch {
        tokens: &[TokenId(1)],
        start: 0,
        blocks: &[&[1]],
        logits: LogitsWanted::Last,
        adapter: Some(&adapter),
    }];
    let mut logits = Vec::new();
    let result = model.forward(&compute, &mut Scratch::new(), &mut store, &batch, &mut logits);
    assert_eq!(result, Err(ForwardError::Adapter { sequence: 0 }));
}
