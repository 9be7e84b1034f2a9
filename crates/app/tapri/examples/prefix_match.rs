//! How much of a prompt is found again: the prefix cache alone, with 32,000 stand-in tokens for a file of 40 pages.
//!
//! `cargo run --example prefix_match`
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;

use tapri_kv::{
    Admission, AdmitOptions, CacheConfig, CallId, GroupSpec, Moment, PrefixCache, PrefixHash,
    PromptKeys, Root, RootParts,
};

const PAGE: usize = 800;
const FILE: u32 = 32_000;

/// Asks one question and returns how many tokens of the prompt were found.
fn ask(
    cache: &mut PrefixCache,
    call: u64,
    keys: &PromptKeys,
    prompt: &[u32],
) -> Result<usize, Box<dyn Error>> {
    let call = CallId(call);
    match cache.admit(call, prompt, keys, AdmitOptions::default(), Moment::START)? {
        Admission::Ready(ready) => {
            cache.reserve(call, prompt.len(), &mut Vec::new())?;
            // A model would compute the rest here.
            cache.computed(call, prompt.len())?;
            cache.finish(call, Moment::START);
            Ok(ready.hit)
        }
        other => Err(format!("not admitted: {other:?}").into()),
    }
}

/// Asks five questions and says for each how much of its prompt was found.
pub(crate) fn lines() -> Result<[String; 5], Box<dyn Error>> {
    let mut cache = PrefixCache::new(CacheConfig::new(16_384, vec![GroupSpec::Full]))?;
    let keys = PromptKeys::new(Root::new(&RootParts {
        numerics: 1,
        isa: "none",
        model: b"stand-in",
        rope: b"",
        kv_type: "none",
        block_tokens: CacheConfig::BLOCK_TOKENS,
        hash: PrefixHash::Sha256,
        tenant: b"",
    }));
    let file: Vec<u32> = (0..FILE).collect();
    let question = |number: u32| (0..40).map(move |token| 100_000 + number * 1000 + token);

    let first: Vec<u32> = file.iter().copied().chain(question(1)).collect();
    let first_hit = ask(&mut cache, 1, &keys, &first)?;

    let second: Vec<u32> = file.iter().copied().chain(question(2)).collect();
    let second_hit = ask(&mut cache, 2, &keys, &second)?;

    // The time of day near the start: everything behind it is another prompt.
    let mut timed = first.clone();
    timed[5] = 99_999;
    let timed_hit = ask(&mut cache, 3, &keys, &timed)?;

    // A word corrected at the top of page 30: the 29 pages before it are found.
    let mut fixed = first.clone();
    fixed[29 * PAGE + 3] = 99_999;
    let fixed_hit = ask(&mut cache, 4, &keys, &fixed)?;

    let other = keys.clone().with_salt(b"other customer");
    let other_hit = ask(&mut cache, 5, &other, &first)?;
    Ok([
        format!("first question:  {first_hit}"),
        format!("second question: {second_hit}"),
        format!("time at token 5: {timed_hit}"),
        format!("fix on page 30:  {fixed_hit}"),
        format!("other customer:  {other_hit}"),
    ])
}

fn main() -> Result<(), Box<dyn Error>> {
    for line in lines()? {
        println!("{line}");
    }
    Ok(())
}
