//! Answers keep to their grammar, whatever the model would say, and a hit changes nothing of that.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::{Answer, ask, config, finish, prompt, request, start};
use tapri_engine::{
    ConstraintError, Engine, EngineConfig, FinishReason, GenerateRequest, Grammar, Sampling,
};
use tapri_model::tiny::TinyModel;

fn constrained(engine: &Engine, grammar: &Grammar, seed: u64) -> GenerateRequest {
    let mut request = request(prompt(40, 3), 300);
    request.sampling = Sampling { seed: Some(seed), ..Sampling::default() };
    request.constraint = Some(engine.constrain(grammar).unwrap());
    request
}

fn object(properties: &Value) -> Grammar {
    let names: Vec<_> = properties.as_object().unwrap().keys().collect();
    Grammar::Json(json!({
        "type": "object", "properties": properties, "required": names, "additionalProperties": false
    }))
}

#[test]
fn a_regular_expression_is_matched_as_a_whole() {
    let engine = start(&TinyModel::llama(), config());
    let answer = ask(&engine, constrained(&engine, &Grammar::Regex("[ab]{5}c|d{3}".into()), 1));
    let whole = answer.text == "ddd"
        || answer
            .text
            .strip_suffix('c')
            .is_some_and(|ab| ab.len() == 5 && ab.chars().all(|c| matches!(c, 'a' | 'b')));
    assert!(whole, "{:?}", answer.text);
    // It ends where nothing can follow, though the request said to go on past the model's end.
    assert_eq!(answer.outcome.finish, FinishReason::Stop);
}

#[test]
fn a_grammar_may_be_left_only_where_it_is_complete() {
    let engine = start(&TinyModel::gemma3(), config());
    let lark = Grammar::Lark("start: \"x\" item+ \"y\"\nitem: /[a-c]{2}/ \";\"".into());
    for seed in 0..4 {
        let answer = ask(&engine, constrained(&engine, &lark, seed));
        let items = answer.text.strip_prefix('x').unwrap();
        match answer.outcome.finish {
            FinishReason::Stop => {
                let items = items.strip_suffix(";y").unwrap();
                assert!(items.split(';').all(|item| item.len() == 2), "{items}");
            }
            finish => assert_eq!((finish, answer.ids.len()), (FinishReason::Length, 300)),
        }
    }
}

#[test]
fn cold_warm_shared_and_in_a_batch_are_the_same_bits() {
    let grammar = object(&json!({
        "name": { "type": "string", "maxLength": 12 },
        "age": { "type": "integer", "minimum": 0, "maximum": 150 },
        "tags": { "type": "array", "items": { "enum": ["a", "b", "c"] }, "maxItems": 4 }
    }));
    for model in [TinyModel::llama(), TinyModel::gemma3()] {
        let cold = start(&model, EngineConfig { prefix_cache: false, ..config() });
        let expected = ask(&cold, constrained(&cold, &grammar, 5));
        assert_eq!(expected.outcome.finish, FinishReason::Stop);
        let engine = start(&model, config());
        let first = ask(&engine, constrained(&engine, &grammar, 5));
        let warm = ask(&engine, constrained(&engine, &grammar, 5));
        assert_eq!((first.admitted.cached_tokens, warm.admitted.cached_tokens), (0, 32));
        // Beside it one that has no grammar: a mask must not slip.
        let plain = engine.submit(request(prompt(60, 8), 40)).unwrap();
        let batched = engine.submit(constrained(&engine, &grammar, 5)).unwrap();
        let plain = finish(plain).unwrap();
        let batched = finish(batched).unwrap();
        for answer in [&first, &warm, &batched] {
            assert_eq!(answer.seen(), expected.seen());
        }
        assert_eq!(plain.seen(), ask(&cold, request(prompt(60, 8), 40)).seen());
    }
}

#[test]
fn a_compiled_grammar_serves_many_calls() {
    let engine = start(&TinyModel::llama(), config());
    let one = constrained(&engine, &object(&json!({ "ok": { "type": "boolean" } })), 1);
    let texts: Vec<String> = [one.clone(), one.clone(), one]
        .into_iter()
        .map(|request| engine.submit(request).unwrap())
        .map(|call| finish(call).unwrap().text)
        .collect();
    assert!(texts.iter().all(|text| text == &texts[0]), "{texts:?}");
}

#[test]
fn what_cannot_be_kept_to_is_named() {
    let engine = start(&TinyModel::llama(), config());
    let refused = |schema: Value| engine.constrain(&Grammar::Json(schema)).unwrap_err();
    let error = refused(json!({ "properties": { "a": { "not": { "type": "null" } } } }));
    assert!(
        matches!(&error, ConstraintError::Keyword { keyword, path } if keyword == "not" && path == "/properties/a")
    );
    for (schema, word) in [
        (json!({ "type": "object", "properties": { "a": false }, "required": ["a"] }), "a"),
        (json!({ "type": "integer", "minimum": 5, "maximum": 2 }), "minimum"),
        (json!({ "type": "strnig" }), "strnig"),
        (json!({ "$ref": "#/$defs/gone" }), "gone"),
        (json!({ "type": "string", "format": "no-such-format" }), "format"),
        (json!({ "type": "string", "pattern": "(" }), "regex"),
        (json!({ "oneOf": [{ "type": "integer" }, { "type": "number" }] }), "oneOf"),
    ] {
        let error = refused(schema.clone()).to_string();
        assert!(error.contains(word) && !error.contains('\n'), "{schema}: {error}");
    }
    let error = engine.constrain(&Grammar::Lark("start: nothing".into())).unwrap_err();
    assert!(error.to_string().contains("nothing"), "{error}");
}

/// A schema, bounded so that most answers end.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({ "type": "boolean" })),
        Just(json!({ "type": "null" })),
        (0..5u32, 0..8u32).prop_map(
            |(min, more)| json!({ "type": "string", "minLength": min, "maxLength": min + more })
        ),
        (-50..50i32, 0..500i32).prop_map(
            |(min, more)| json!({ "type": "integer", "minimum": min, "maximum": min + more })
        ),
        prop::collection::vec("[a-z\"\\\\é]{0,6}", 1..4).prop_map(|words| json!({ "enum": words })),
        (-9..9i32).prop_map(|n| json!({ "const": n })),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), 0..2usize, 0..3usize).prop_map(|(items, min, more)| {
                json!({ "type": "array", "items": items, "minItems": min, "maxItems": min + more })
            }),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|all| json!({ "anyOf": all })),
            prop::collection::btree_map("[a-z]{1,4}", (inner, any::<bool>()), 0..4).prop_map(
                |fields| {
                    let required: Vec<_> =
                        fields.iter().filter(|(_, f)| f.1).map(|(name, _)| name.clone()).collect();
                    let properties: serde_json::Map<_, _> =
                        fields.into_iter().map(|(name, (schema, _))| (name, schema)).collect();
                    json!({
                        "type": "object", "properties": properties, "required": required,
                        "additionalProperties": false
                    })
                }
            ),
        ]
    })
}

/// A plain reading of the keywords that [`schema`] uses.
fn is_valid(value: &Value, schema: &Value) -> bool {
    if let Some(options) = schema.get("anyOf") {
        return options.as_array().unwrap().iter().any(|option| is_valid(value, option));
    }
    if let Some(values) = schema.get("enum") {
        return values.as_array().unwrap().contains(value);
    }
    if let Some(constant) = schema.get("const") {
        return value == constant;
    }
    let number = |name: &str| schema[name].as_i64().unwrap();
    let within = |n: usize, min: &str, max: &str| {
        (number(min)..=number(max)).contains(&i64::try_from(n).unwrap())
    };
    match schema["type"].as_str().unwrap() {
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "string" => {
            value.as_str().is_some_and(|s| within(s.chars().count(), "minLength", "maxLength"))
        }
        // By the standard -0 is an integer, and serde_json reads it as a float.
        "integer" => value.as_f64().is_some_and(|n| {
            n.fract() == 0.0 && (number("minimum")..=number("maximum")).contains(&(n as i64))
        }),
        "array" => value.as_array().is_some_and(|items| {
            within(items.len(), "minItems", "maxItems")
                && items.iter().all(|item| is_valid(item, &schema["items"]))
        }),
        "object" => value.as_object().is_some_and(|fields| {
            let required = schema["required"].as_array().unwrap();
            required.iter().all(|name| fields.contains_key(name.as_str().unwrap()))
                && fields.iter().all(|(name, field)| {
                    schema["properties"].get(name).is_some_and(|schema| is_valid(field, schema))
                })
        }),
        other => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the schema and the (random) model: an answer that ended parses and keeps to the schema.
    #[test]
    fn a_finished_answer_is_valid(schema in schema(), seed in 0..1000u64, gemma in any::<bool>()) {
        let recipe = if gemma { TinyModel::gemma3() } else { TinyModel::llama() };
        let engine = start(&TinyModel { seed, layers: 2, ..recipe }, config());
        let call = |request: GenerateRequest| -> Answer { ask(&engine, request) };
        let grammar = Grammar::Json(schema.clone());
        let mut sampled = constrained(&engine, &grammar, seed);
        sampled.max_tokens = 2000;
        let mut greedy = sampled.clone();
        greedy.sampling = Sampling::greedy();
        for answer in [call(sampled), call(greedy)] {
            // White space and strings are bounded, so every answer ends.
            prop_assert_eq!(answer.outcome.finish, FinishReason::Stop, "{}", answer.text);
            let value: Value = serde_json::from_str(&answer.text).unwrap();
            prop_assert!(is_valid(&value, &schema), "{} by {}", answer.text, schema);
        }
    }
}
