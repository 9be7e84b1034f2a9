//! The model against stored vectors, and its batches.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::OnceLock;

use serde::Deserialize;
use tapri_embed::{Embed, Embedder, MiniLm, check, vector};

#[derive(Deserialize)]
struct Golden {
    text: String,
    tokens: usize,
    vector: Vec<f32>,
}

/// See `data/make_golden.py`.
fn golden() -> Vec<Golden> {
    serde_json::from_str(include_str!("data/golden.json")).unwrap()
}

fn model() -> &'static MiniLm {
    static MODEL: OnceLock<MiniLm> = OnceLock::new();
    MODEL.get_or_init(|| MiniLm::open(&tapri_registry::test_model("all-minilm-l6-v2")).unwrap())
}

#[test]
fn golden_vectors_alone_and_in_a_batch() {
    let golden = golden();
    let texts: Vec<&str> = golden.iter().map(|g| g.text.as_str()).collect();
    let batch = model().embed(&texts).unwrap();
    for (golden, together) in golden.iter().zip(&batch) {
        let alone = model().embed(&[&golden.text]).unwrap().pop().unwrap();
        for found in [together, &alone] {
            assert_eq!(found.tokens, golden.tokens, "{}", golden.text);
            assert_eq!(found.vector.len(), 384);
            let worst = found
                .vector
                .iter()
                .zip(&golden.vector)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            assert!(worst < 1e-4, "{worst} in {}", golden.text);
        }
        assert_eq!(together.truncated, golden.tokens == 256, "{}", golden.text);
    }
}

#[test]
fn it_passes_the_check_and_stores_what_it_computed() {
    check(model()).unwrap();
    let embedder =
        Embedder::checked(MiniLm::open(&tapri_registry::test_model("all-minilm-l6-v2")).unwrap())
            .unwrap();
    let texts = ["When are you open?", "What are your opening hours?", "When are you open?"];
    let found = embedder.embed(&texts).unwrap();
    assert_eq!(found[0], found[2]);
    assert!(vector::dot(&found[0].vector, &found[1].vector) > 0.7);
    // The very same vector: not computed again.
    let again = embedder.embed_one(texts[1]).unwrap();
    assert!(std::sync::Arc::ptr_eq(&again.vector, &found[1].vector));
    embedder.forget();
    let anew = embedder.embed_one(texts[1]).unwrap();
    assert!(!std::sync::Arc::ptr_eq(&anew.vector, &found[1].vector));
    assert_eq!(embedder.dimensions(), Some(384));
}
