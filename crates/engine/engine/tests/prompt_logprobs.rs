//! The logprobs of a prompt's tokens are those of a plain forward pass, whatever else happens.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{config, prompt, request, start, threads};
use tapri_engine::{
    Engine, EngineConfig, GenerateEvent, GenerateRequest, PromptLogprobs, StopReason, TokenId,
};
use tapri_kernels::{Compute, Isa, KvStore};
use tapri_model::tiny::TinyModel;
use tapri_model::{LogitsWanted, Model, Scratch, SequenceBatch};

/// What a call told of its prompt, the tokens of its answer, and its admission.
struct Told {
    prompt: Vec<PromptLogprobs>,
    answer: Vec<u32>,
    cached: usize,
    stop: StopReason,
    written: usize,
}

fn ask(engine: &Engine, request: GenerateRequest) -> Told {
    let mut call = engine.submit(request).unwrap();
    let (mut told, mut answer, mut admitted) = (Vec::new(), Vec::new(), None);
    while let Some(event) = call.next() {
        match event {
            GenerateEvent::Admitted(it) => admitted = Some(it),
            GenerateEvent::Prefill { .. } => {}
            GenerateEvent::Prompt(more) => {
                assert!(answer.is_empty(), "the prompt comes before the answer");
                told.extend(more);
            }
            GenerateEvent::Token(token) => answer.push(token.id.0),
            GenerateEvent::Done(outcome) => {
                let admitted = admitted.unwrap();
                let (cached, stop) = (admitted.cached_tokens, admitted.stop.reason);
                let written = outcome.usage.written_tokens;
                return Told { prompt: told, answer, cached, stop, written };
            }
            GenerateEvent::Failed(error) => panic!("{error}"),
        }
    }
    panic!("no last event");
}

fn scored(prompt: Vec<TokenId>, max_tokens: usize) -> GenerateRequest {
    GenerateRequest { prompt_logprobs: Some(3), ..request(prompt, max_tokens) }
}

/// The logits of every place of a prompt, in one pass.
fn plain(model: &TinyModel, tokens: &[TokenId]) -> (Vec<f32>, usize) {
    let compute = Compute::new(Isa::best(), 1);
    let model = Model::load(&model.gguf(), &compute).unwrap();
    let plan = model.kv_plan(16);
    let each = tokens.len().div_ceil(16);
    let mut store = KvStore::new(plan.layout, 1 + each * plan.groups.len()).unwrap();
    let tables: Vec<Vec<u32>> = (0..plan.groups.len())
        .map(|group| (0..each).map(|block| (1 + group * each + block) as u32).collect())
        .collect();
    let blocks: Vec<&[u32]> = tables.iter().map(Vec::as_slice).collect();
    let batch = [SequenceBatch {
        tokens,
        start: 0,
        blocks: &blocks,
        logits: LogitsWanted::All,
        adapter: None,
    }];
    let mut logits = Vec::new();
    model.forward(&compute, &mut Scratch::new(), &mut store, &batch, &mut logits).unwrap();
    (logits, model.config().vocab_size)
}

/// ln softmax in f64, by its definition.
fn logprob(row: &[f32], token: TokenId) -> f64 {
    let sum: f64 = row.iter().map(|l| f64::from(*l).exp()).sum();
    f64::from(row[token.0 as usize]) - sum.ln()
}

fn check(told: &[PromptLogprobs], tokens: &[TokenId], logits: &[f32], vocabulary: usize) {
    assert_eq!(told.len(), tokens.len() - 1, "an entry for each token but the first");
    for (at, it) in told.iter().enumerate() {
        let row = &logits[at * vocabulary..][..vocabulary];
        let chosen = &it.logprobs.chosen;
        assert_eq!(chosen.id, tokens[at + 1]);
        assert!((f64::from(chosen.logprob) - logprob(row, chosen.id)).abs() < 1e-5);
        let better = row.iter().filter(|l| **l >= row[chosen.id.0 as usize]).count();
        assert_eq!(it.rank, better);
        let mut ids: Vec<u32> = (0..vocabulary as u32).collect();
        ids.sort_by(|a, b| row[*b as usize].total_cmp(&row[*a as usize]).then(a.cmp(b)));
        let top: Vec<u32> = it.logprobs.top.iter().map(|it| it.id.0).collect();
        assert_eq!(top, ids[..3]);
        for rival in &it.logprobs.top {
            assert!((f64::from(rival.logprob) - logprob(row, rival.id)).abs() < 1e-5);
        }
    }
}

#[test]
fn they_are_those_of_a_plain_pass_in_chunks_of_any_size() {
    for model in [TinyModel::llama(), TinyModel::gemma3()] {
        let tokens = prompt(100, 7);
        let (logits, vocabulary) = plain(&model, &tokens);
        for chunk in [1, 7, 16, 512] {
            let engine = start(&model, EngineConfig { chunk: threads(chunk), ..config() });
            let told = ask(&engine, scored(tokens.clone(), 4));
            check(&told.prompt, &tokens, &logits, vocabulary);
            assert_eq!(told.answer, support::ask(&engine, request(tokens.clone(), 4)).ids);
        }
    }
}

#[test]
fn nothing_is_read_from_the_cache_and_the_prompt_is_stored() {
    let model = TinyModel::llama();
    let engine = start(&model, config());
    let tokens = prompt(64, 3);
    let first = ask(&engine, scored(tokens.clone(), 1));
    assert_eq!((first.cached, first.stop, first.written), (0, StopReason::Bypassed, 64));
    let again = ask(&engine, scored(tokens.clone(), 1));
    assert_eq!(
        (again.cached, again.prompt.len()),
        (0, 63),
        "computed anew, as it needs the scores"
    );
    let plain = support::ask(&engine, request(tokens, 1));
    assert_eq!(plain.admitted.cached_tokens, 48, "others find what it left behind");
}

#[test]
fn a_prompt_alone_and_the_shortest_one() {
    let model = TinyModel::llama();
    let engine = start(&model, config());
    let tokens = prompt(40, 5);
    let (logits, vocabulary) = plain(&model, &tokens);
    let alone = ask(&engine, scored(tokens.clone(), 0));
    check(&alone.prompt, &tokens, &logits, vocabulary);
    assert!(alone.answer.is_empty());
    let short = ask(&engine, scored(tokens[..1].to_vec(), 2));
    assert_eq!((short.prompt.len(), short.answer.len()), (0, 2));
    assert_eq!(ask(&engine, scored(tokens[..2].to_vec(), 2)).prompt.len(), 1);
}

#[test]
fn beside_others_and_after_preemption_each_token_is_told_once() {
    let model = TinyModel::llama();
    // Room for little more than one of the calls at a time: they preempt each other.
    let layout =
        Model::load(&model.gguf(), &Compute::new(Isa::best(), 1)).unwrap().kv_plan(16).layout;
    let kv_memory = (layout.block_bytes() * 22) as u64;
    let engine = start(&model, EngineConfig { kv_memory, chunk: threads(16), ..config() });
    let prompts: Vec<Vec<TokenId>> = (0..4).map(|seed| prompt(96, 50 + seed)).collect();
    let told: Vec<Told> = std::thread::scope(|scope| {
        let calls: Vec<_> = prompts
            .iter()
            .map(|tokens| scope.spawn(|| ask(&engine, scored(tokens.clone(), 120))))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    for (tokens, told) in prompts.iter().zip(&told) {
        let (logits, vocabulary) = plain(&model, tokens);
        check(&told.prompt, tokens, &logits, vocabulary);
    }
}

#[test]
fn of_several_answers_the_first_is_told() {
    let model = TinyModel::llama();
    let engine = start(&model, config());
    let tokens = prompt(48, 9);
    let mut calls = engine.submit_choices(scored(tokens, 2), 3).unwrap();
    let told: Vec<usize> = calls
        .iter_mut()
        .map(|call| {
            let mut told = 0;
            while let Some(event) = call.next() {
                if let GenerateEvent::Prompt(more) = event {
                    told += more.len();
                }
            }
            told
        })
        .collect();
    assert_eq!(told, [47, 0, 0]);
}

#[test]
fn repetition_is_penalised_over_prompt_and_answer() {
    let model = TinyModel::llama();
    let engine = start(&model, config());
    let tokens = prompt(40, 11);
    let free = support::ask(&engine, request(tokens.clone(), 24)).ids;
    let mut penalised = request(tokens.clone(), 24);
    penalised.sampling.repetition_penalty = 10.0;
    let answer = support::ask(&engine, penalised.clone()).ids;
    assert_ne!(answer, free);
    assert_eq!(answer, support::ask(&engine, penalised).ids, "a hit changes nothing");
    // The answer's first token by hand.
    let (logits, vocabulary) = plain(&model, &tokens);
    let mut row = logits[39 * vocabulary..].to_vec();
    for id in tokens.iter().map(|token| token.0 as usize).collect::<std::collections::BTreeSet<_>>()
    {
        row[id] = if row[id] > 0.0 { row[id] / 10.0 } else { row[id] * 10.0 };
    }
    let best = (0..vocabulary).max_by(|a, b| row[*a].total_cmp(&row[*b]).then(b.cmp(a))).unwrap();
    assert_eq!(answer[0] as usize, best);
}
