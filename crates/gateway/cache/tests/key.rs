//! What makes two calls the same: properties both ways.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tapri_api::{CacheSalt, Call, Format, Inbound, Message, Origin, TenantScope};
use tapri_cache::exact::{Key, NoKey, Resolved};

fn inbound(format: Format, text: &str) -> Arc<Inbound> {
    Arc::new(Inbound::read(format, Bytes::from(text.to_owned()), Vec::new()).unwrap())
}

type Change = fn(&mut Call);

fn call(text: &str) -> Call {
    Call::request(inbound(Format::Chat, text))
}

fn key(call: &Call) -> Result<Key, NoKey> {
    Key::of(call, &Resolved { upstream: "u", model: "m", build: "b", defaults: b"" })
}

fn of(text: &str) -> Key {
    key(&call(text)).unwrap()
}

fn of_body(body: &Map<String, Value>) -> Key {
    of(&Value::Object(body.clone()).to_string())
}

/// The same value with every object's members in another order, numbers and white space written in another way.
fn shuffled(value: &Value, seed: u64, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut members: Vec<_> = fields.iter().collect();
            members.sort_by_key(|(name, _)| {
                let mut hash = seed;
                name.bytes().for_each(|b| hash = hash.wrapping_mul(31).wrapping_add(b.into()));
                hash.rotate_left(17) ^ seed
            });
            out.push_str("{ ");
            for (i, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if i > 0 { " ,\n" } else { "" });
                out.push_str(&escaped(name, seed));
                out.push_str(" :\t");
                shuffled(value, seed.rotate_left(5), out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                shuffled(item, seed, out);
            }
            out.push(']');
        }
        Value::Number(number) if number.is_i64() && seed.is_multiple_of(2) => {
            out.push_str(&format!("{number}.0"));
        }
        Value::String(text) => out.push_str(&escaped(text, seed)),
        other => out.push_str(&other.to_string()),
    }
}

fn escaped(text: &str, seed: u64) -> String {
    if !seed.is_multiple_of(3) {
        return Value::from(text).to_string();
    }
    let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    format!("\"{units}\"")
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1000i64..1000).prop_map(Value::from),
        (-1e6f64..1e6).prop_map(Value::from),
        "[a-z:\"\\\\é{}]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn body() -> impl Strategy<Value = Map<String, Value>> {
    let field = "[a-z]{2,9}x";
    prop::collection::btree_map(field, json_value(), 1..6).prop_map(|map| {
        let mut body: Map<String, Value> = map.into_iter().collect();
        body.insert("model".into(), "m".into());
        body.insert("messages".into(), json!([{"role": "user", "content": "Why is it \"so\"?"}]));
        body
    })
}

/// Complaint 8: a gateway hashed a map in the order it came, and never hit.
#[test]
fn member_order_never_makes_a_miss() {
    let one = of(
        r#"{"model":"m","temperature":1,"tools":[{"function":{"name":"f","parameters":{"a":1,"b":2}}}]}"#,
    );
    let other = of(
        r#"{"tools":[{"function":{"parameters":{"b":2.0,"a":1},"name":"f"}}], "temperature":1.0, "model":"m"}"#,
    );
    assert_eq!(one, other);
}

/// Complaint 5: a gateway left parameters that it didn't know out of the key, and gave wrong answers.
#[test]
fn a_parameter_that_nobody_knows_makes_a_new_key() {
    let plain = of(r#"{"model":"m","prompt":"x"}"#);
    for more in [
        r#""num_ctx":8192"#,
        r#""reasoning_effort":"high""#,
        r#""thinking":{"type":"enabled","budget_tokens":1024}"#,
        r#""top_k":5"#,
        r#""extra_body":{"seed":1}"#,
        r#""a_field_of_next_year":null"#,
    ] {
        assert_ne!(of(&format!(r#"{{"model":"m","prompt":"x",{more}}}"#)), plain, "{more}");
    }
}

#[test]
fn what_does_not_affect_the_answer_is_no_part_of_it() {
    let plain = of(r#"{"model":"m","messages":[]}"#);
    for more in [
        r#""stream":true"#,
        r#""stream":true,"stream_options":{"include_usage":true}"#,
        r#""user":"u7""#,
        r#""safety_identifier":"s""#,
        r#""metadata":{"session_id":"s7"}"#,
        r#""prompt_cache_key":"k""#,
        r#""prompt_cache_retention":"24h""#,
        r#""store":false"#,
    ] {
        assert_eq!(of(&format!(r#"{{"model":"m","messages":[],{more}}}"#)), plain, "{more}");
    }
    // The same names somewhere else, or in an API that has no such field, are part of the question.
    let in_messages = |text| key(&Call::request(inbound(Format::Messages, text))).unwrap();
    assert_ne!(in_messages(r#"{"user":"a"}"#), in_messages(r#"{"user":"b"}"#));
    assert_ne!(of(r#"{"messages":[{"user":"a"}]}"#), of(r#"{"messages":[{"user":"b"}]}"#));
}

#[test]
fn what_an_upstream_keeps_has_no_key() {
    let of = |format, text| key(&Call::request(inbound(format, text)));
    for (format, text) in [
        (Format::Chat, r#"{"store":true}"#),
        (Format::Responses, r#"{"store":true}"#),
        (Format::Responses, r#"{"background":true}"#),
        (Format::Responses, r#"{"conversation":"conv_1"}"#),
        (Format::Responses, r#"{"previous_response_id":"resp_1"}"#),
        (Format::Messages, r#"{"container":"c"}"#),
    ] {
        assert_eq!(of(format, text), Err(NoKey::Stateful), "{text}");
    }
    assert!(of(Format::Responses, r#"{"store":false,"conversation":null}"#).is_ok());
}

#[test]
fn a_request_that_readers_may_read_differently_has_no_key() {
    let twice = r#"{"model":"m","temperature":0,"temperature":1}"#;
    assert_eq!(key(&call(twice)), Err(NoKey::Ambiguous));
    let nested = r#"{"model":"m","tools":[{"name":"a","name":"b"}]}"#;
    assert_eq!(key(&call(nested)), Err(NoKey::Ambiguous));
}

#[test]
fn numbers_that_one_double_stands_for_are_two() {
    let seed = |digits: &str| of(&format!(r#"{{"seed":{digits}}}"#));
    assert_ne!(seed("123456789012345678901234567890"), seed("123456789012345678901234567891"));
    assert_ne!(seed("9007199254740993"), seed("9007199254740992"));
    assert_ne!(seed("0.30000000000000004"), seed("0.3"));
    assert_eq!(seed("7"), seed("7.0"));
}

/// Complaint 1: a gateway's exact cache was shared by all teams.
#[test]
fn the_same_request_of_another_tenant_is_another() {
    let text = r#"{"model":"m","messages":[]}"#;
    let base = call(text);
    let of = |change: &dyn Fn(&mut Call)| {
        let mut call = base.clone();
        change(&mut call);
        key(&call).unwrap()
    };
    let plain = of(&|_| {});
    assert_eq!(of(&|call| call.id = Call::text("").id), plain);
    assert_eq!(of(&|call| call.origin.conversation = Some("s".into())), plain);
    assert_eq!(of(&|call| call.cache.no_cache = true), plain);
    let others = [
        of(&|call| call.scope = TenantScope(vec![1; 32])),
        of(&|call| call.scope = TenantScope(vec![2; 32])),
        of(&|call| call.origin.tenant = "other".into()),
        of(&|call| call.salt = Some(CacheSalt::new("s").unwrap())),
        of(&|call| call.salt = Some(CacheSalt::new("t").unwrap())),
        of(&|call| call.origin.document = Some("d".into())),
        of(&|call| call.origin = Origin::of("/v1/other")),
        of(&|call| call.model = Some("alias".into())),
        Key::of(&base, &Resolved { upstream: "v", model: "m", build: "b", defaults: b"" }).unwrap(),
        Key::of(&base, &Resolved { upstream: "u", model: "n", build: "b", defaults: b"" }).unwrap(),
        Key::of(&base, &Resolved { upstream: "u", model: "m", build: "c", defaults: b"" }).unwrap(),
        Key::of(&base, &Resolved { upstream: "u", model: "m", build: "b", defaults: b"d" })
            .unwrap(),
    ];
    let mut all: Vec<Key> = others.into_iter().chain([plain]).collect();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count, "each is a call of its own");
}

#[test]
fn headers_that_change_the_answer_are_part_of_it() {
    let with = |value: &str| {
        let headers = vec![("anthropic-beta".to_owned(), value.to_owned())];
        let bytes = Bytes::from_static(b"{\"model\":\"m\"}");
        key(&Call::request(Arc::new(Inbound::read(Format::Messages, bytes, headers).unwrap())))
    };
    assert_ne!(with("a"), with("b"));
    let chat = |format| key(&Call::request(inbound(format, r#"{"model":"m"}"#)));
    assert_ne!(chat(Format::Chat), chat(Format::Completion));
}

#[test]
fn calls_made_by_hand_differ_in_every_field() {
    let base = Call::chat(vec![Message::user("Why?")]);
    let changes: [(&str, Change); 18] = [
        ("max_tokens", |call| call.max_tokens = Some(7)),
        ("temperature", |call| call.sampling.temperature = 0.5),
        ("top_k", |call| call.sampling.top_k = Some(1)),
        ("top_p", |call| call.sampling.top_p = 0.5),
        ("min_p", |call| call.sampling.min_p = 0.5),
        ("seed", |call| call.sampling.seed = Some(1)),
        ("presence", |call| call.sampling.presence_penalty = 0.5),
        ("frequency", |call| call.sampling.frequency_penalty = 0.5),
        ("repetition", |call| call.sampling.repetition_penalty = 1.5),
        ("prompt logprobs", |call| call.prompt_logprobs = Some(0)),
        ("echo", |call| call.echo = true),
        ("bias", |call| call.sampling.logit_bias = vec![(1, 0.5)]),
        ("stop", |call| call.stop.strings = vec!["x".into()]),
        ("stop ids", |call| call.stop.token_ids = vec![1]),
        ("eos", |call| call.stop.ignore_eos = true),
        ("logprobs", |call| call.logprobs = Some(0)),
        ("choices", |call| call.choices = 2),
        ("parallel", |call| call.parallel_tool_calls = false),
    ];
    let mut keys = vec![
        key(&base).unwrap(),
        key(&Call::chat(vec![Message::system("Why?")])).unwrap(),
        key(&Call::chat(vec![Message::user("Wh"), Message::user("y?")])).unwrap(),
        key(&Call::text("Why?")).unwrap(),
        key(&Call::tokens(vec![1, 2])).unwrap(),
    ];
    for (name, change) in changes {
        let mut call = base.clone();
        change(&mut call);
        let key = key(&call).unwrap();
        assert!(!keys.contains(&key), "{name}");
        keys.push(key);
    }
}

#[test]
fn a_key_is_never_shown() {
    assert_eq!(format!("{:?}", of("{}")), "Key(***)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_same_request_hits_however_it_is_written(body in body(), seed in any::<u64>(), stream in any::<bool>()) {
        let mut other = body.clone();
        other.insert("stream".into(), stream.into());
        let mut text = String::new();
        shuffled(&Value::Object(other), seed, &mut text);
        prop_assert_eq!(of_body(&body), of(&text), "{}", text);
    }

    #[test]
    fn any_change_of_a_field_misses(body in body(), at in any::<prop::sample::Index>(), value in json_value()) {
        let name = body.keys().nth(at.index(body.len())).unwrap().clone();
        let mut changed = body.clone();
        let old = changed.insert(name.clone(), value.clone()).unwrap();
        prop_assume!(name != "model" && old != value && old.as_f64().is_none_or(|old| Some(old) != value.as_f64()));
        prop_assert_ne!(of_body(&body), of_body(&changed));
        let mut less = body.clone();
        less.remove(&name);
        prop_assert_ne!(of_body(&body), of_body(&less));
        let mut more = body.clone();
        more.insert("one_more".into(), value);
        prop_assert_ne!(of_body(&body), of_body(&more));
    }
}
