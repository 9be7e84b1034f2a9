//! What is read from requests, and what is refused: every refusal names its field.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use tapri_api::openai::{chat, completion, tokenize};
use tapri_api::{
    ApiError, CacheDirectives, Call, Format, Inbound, Message, OutputFormat, Part, Prompt, Role,
    ToolCall, ToolChoice, ToolResult,
};

fn refusal(result: Result<impl std::fmt::Debug, ApiError>) -> String {
    let error = result.unwrap_err();
    format!("{} [{}] {}", error.status(), error.field.as_deref().unwrap_or("-"), error)
}

fn chat_with(fields: &str) -> String {
    format!(r#"{{"messages": [{{"role": "user", "content": "hi"}}], {fields}}}"#)
}

#[test]
fn a_chat_with_everything() {
    let request = chat::parse(
        br#"{"model": "m", "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "ann"},
            {"role": "assistant", "content": "c", "tool_calls": [], "audio": null}],
            "max_completion_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": -1,
            "stop": ["x", "y"], "stop_token_ids": [3], "ignore_eos": true, "logprobs": true, "top_logprobs": 5,
            "stream": true, "stream_options": {"include_usage": true, "include_obfuscation": false},
            "cache_salt": "s", "user": "u", "metadata": {"a": "b"}, "store": true, "service_tier": "auto",
            "n": 1, "tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "presence_penalty": 0,
            "logit_bias": {}, "no_such_field": [1, 2], "prompt_cache_key": "k", "modalities": ["text"]}"#,
    )
    .unwrap();
    let Prompt::Chat(messages) = &request.call.prompt else { panic!("not a conversation") };
    assert_eq!(messages[0], Message::system("Be brief."));
    assert_eq!(messages[1].parts, [Part::Text("a".into()), Part::Text("b".into())]);
    assert_eq!((messages[1].text().as_str(), messages[1].name.as_deref()), ("a\nb", Some("ann")));
    assert_eq!(messages[2].role, Role::Assistant);
    let call = &request.call;
    assert_eq!(call.model.as_deref(), Some("m"));
    assert_eq!(call.max_tokens, Some(7));
    assert_eq!((call.sampling.temperature, call.sampling.top_p), (0.5, 0.9));
    assert_eq!(
        (call.sampling.top_k, call.sampling.min_p, call.sampling.seed),
        (Some(40), 0.05, Some(u64::MAX))
    );
    assert_eq!(call.stop.strings, ["x", "y"]);
    assert_eq!((call.stop.token_ids.as_slice(), call.stop.ignore_eos), ([3].as_slice(), true));
    assert_eq!(call.logprobs, Some(5));
    assert_eq!(call.salt.as_ref().map(|s| s.as_str()), Some("s"));
    assert!(request.stream && request.include_usage);
}

#[test]
fn tools_and_what_they_gave_back() {
    let request = chat::parse(
        br#"{"messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "get", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "rain"}]}],
            "tools": [{"type": "function", "function": {"name": "get", "description": "d", "strict": true,
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}],
            "tool_choice": {"type": "function", "function": {"name": "get"}}, "parallel_tool_calls": false,
            "n": 2, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}}"#,
    )
    .unwrap();
    let call = request.call;
    let Prompt::Chat(messages) = &call.prompt else { panic!("not a conversation") };
    let called = ToolCall { id: "call_1".into(), name: "get".into(), arguments: "{}".into() };
    assert_eq!(messages[1].parts, [Part::ToolCall(called)]);
    let result = ToolResult { id: "call_1".into(), text: "rain".into(), is_error: false };
    assert_eq!(
        (messages[2].role, messages[2].parts.as_slice()),
        (Role::Tool, &[Part::ToolResult(result)][..])
    );
    assert_eq!((call.tools[0].name.as_str(), call.tools[0].strict), ("get", true));
    assert_eq!(call.tools[0].parameters["properties"]["city"]["type"], "string");
    assert_eq!(call.tool_choice, ToolChoice::Named("get".into()));
    assert!(!call.parallel_tool_calls);
    assert_eq!(call.choices, 2);
    assert_eq!(call.output, OutputFormat::JsonSchema(serde_json::json!({"type": "object"})));
}

#[test]
fn the_defaults_are_openais() {
    let call = chat::parse(chat_with(r#""model": null"#).as_bytes()).unwrap().call;
    assert_eq!((call.model, call.max_tokens, call.logprobs, call.salt), (None, None, None, None));
    assert_eq!(
        (call.sampling.temperature, call.sampling.top_p, call.sampling.seed),
        (1.0, 1.0, None)
    );
    let request = completion::parse(br#"{"prompt": "x"}"#).unwrap();
    assert_eq!(request.call.max_tokens, Some(16));
    assert!(!request.stream && !request.include_usage);
}

#[test]
fn prompts_of_every_kind() {
    for (json, prompt) in [
        (r#""text""#, Prompt::Text("text".into())),
        (r#"["text"]"#, Prompt::Text("text".into())),
        (r#""""#, Prompt::Text(String::new())),
        ("[1, 2, 4294967295]", Prompt::Tokens(vec![1, 2, u32::MAX])),
        ("[[1, 2]]", Prompt::Tokens(vec![1, 2])),
    ] {
        let body = format!(r#"{{"prompt": {json}}}"#);
        assert_eq!(completion::parse(body.as_bytes()).unwrap().call.prompt, prompt, "{json}");
    }
}

#[test]
fn chat_refusals() {
    let cases = [
        "\"n\": 0",
        "\"n\": 129",
        "\"best_of\": 3",
        "\"logit_bias\": {\"50256\": -101}",
        "\"presence_penalty\": 2.1",
        "\"frequency_penalty\": -3",
        "\"response_format\": {\"type\": \"grammar\"}",
        "\"response_format\": {\"type\": \"json_schema\"}",
        "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\"}}",
        "\"tools\": {}",
        "\"tools\": [{\"type\": \"function\"}]",
        "\"tools\": [{\"type\": \"web_search\"}]",
        "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"\"}}]",
        "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"a\", \"parameters\": 5}}]",
        "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"a\"}}, {\"type\": \"function\", \"function\": {\"name\": \"a\"}}]",
        "\"tool_choice\": \"required\"",
        "\"tool_choice\": \"sometimes\"",
        "\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"a\"}}",
        "\"tool_choice\": {\"type\": \"allowed_tools\"}",
        "\"parallel_tool_calls\": 1",
        "\"functions\": [{}]",
        "\"modalities\": [\"text\", \"audio\"]",
        "\"audio\": {\"voice\": \"x\"}",
        "\"reasoning_effort\": \"high\"",
        "\"temperature\": \"hot\"",
        "\"temperature\": -0.1",
        "\"temperature\": 1e300",
        "\"temperature\": NaN",
        "\"temperature\": 1e999",
        "\"top_p\": 1.5",
        "\"min_p\": true",
        "\"top_k\": 1.5",
        "\"top_k\": -2",
        "\"seed\": 18446744073709551616",
        "\"max_tokens\": -1",
        "\"max_tokens\": 1e12",
        "\"max_tokens\": 99999999999999999999",
        "\"max_tokens\": \"10\"",
        "\"max_tokens\": 1, \"max_completion_tokens\": 2",
        "\"logprobs\": 3",
        "\"logprobs\": true, \"top_logprobs\": 21",
        "\"top_logprobs\": 2",
        "\"stop\": 5",
        "\"stop\": [\"a\", 5]",
        "\"stop\": \"\"",
        "\"stop\": [\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"12\",\"13\",\"14\",\"15\",\"16\",\"17\"]",
        "\"stop_token_ids\": [-1]",
        "\"stream\": \"yes\"",
        "\"stream_options\": {\"include_usage\": true}",
        "\"stream\": true, \"stream_options\": {\"include_usage\": 1}",
        "\"cache_salt\": \"\"",
        "\"cache_salt\": 5",
        "\"model\": 5",
        "\"ignore_eos\": 1",
    ];
    let mut all = String::new();
    for case in cases {
        all.push_str(&format!(
            "{case}\n    {}\n",
            refusal(chat::parse(chat_with(case).as_bytes()))
        ));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn message_refusals() {
    let cases = [
        "5",
        "[]",
        "[5]",
        "[{}]",
        "[{\"role\": \"user\"}]",
        "[{\"role\": \"user\", \"content\": null}]",
        "[{\"role\": \"user\", \"content\": 5}]",
        "[{\"role\": \"user\", \"content\": []}]",
        "[{\"role\": \"robot\", \"content\": \"x\"}]",
        "[{\"role\": 5, \"content\": \"x\"}]",
        "[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"tool\", \"content\": \"x\"}]",
        "[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"function\", \"content\": \"x\"}]",
        "[{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\"}]}]",
        "[{\"role\": \"user\", \"content\": \"x\", \"tool_calls\": [{\"id\": \"1\", \"function\": {\"name\": \"a\"}}]}]",
        "[{\"role\": \"assistant\", \"content\": \"x\", \"function_call\": {\"name\": \"a\"}}]",
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"x\"}, {\"type\": \"image_url\", \"image_url\": {}}]}]",
        "[{\"role\": \"user\", \"content\": [{\"type\": \"input_audio\"}]}]",
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]",
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": 5}]}]",
        "[{\"role\": \"user\", \"content\": \"x\", \"name\": 5}]",
    ];
    let mut all = String::new();
    for case in cases {
        let body = format!(r#"{{"messages": {case}}}"#);
        all.push_str(&format!("{case}\n    {}\n", refusal(chat::parse(body.as_bytes()))));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn completion_refusals() {
    let cases = [
        "{}",
        "{\"prompt\": null}",
        "{\"prompt\": 5}",
        "{\"prompt\": []}",
        "{\"prompt\": [null]}",
        "{\"prompt\": [1, -2]}",
        "{\"prompt\": [1, 2.5]}",
        "{\"prompt\": [1, 4294967296]}",
        "{\"prompt\": [1, \"x\"]}",
        "{\"prompt\": [\"a\", \"b\"]}",
        "{\"prompt\": [[1], [2]]}",
        "{\"prompt\": [[\"x\"]]}",
        "{\"prompt\": \"x\", \"echo\": 1}",
        "{\"prompt\": \"x\", \"suffix\": \"y\"}",
        "{\"prompt\": \"x\", \"logprobs\": true}",
        "{\"prompt\": \"x\", \"logprobs\": 21}",
        "{\"prompt\": \"x\", \"best_of\": 2}",
    ];
    let mut all = String::new();
    for case in cases {
        all.push_str(&format!("{case}\n    {}\n", refusal(completion::parse(case.as_bytes()))));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn bodies_that_are_no_json() {
    let deep = "[".repeat(100_000);
    let cases: [&[u8]; 9] = [
        b"",
        b"hello",
        b"[1]",
        b"\"x\"",
        b"{\"messages\": [{\"role\": \"user\", \"content\": \"x}",
        b"{\"prompt\": \"a\xff\"}",
        b"{\"prompt\": \"\\ud800\"}",
        b"{\"prompt\": \"x\"} trailing",
        deep.as_bytes(),
    ];
    let mut all = String::new();
    for case in cases {
        let shown: String = String::from_utf8_lossy(case).chars().take(40).collect();
        all.push_str(&format!("{shown}\n    {}\n", refusal(completion::parse(case))));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn salts_have_a_length() {
    let ok = "é".repeat(128);
    let call =
        chat::parse(chat_with(&format!("\"cache_salt\": \"{ok}\"")).as_bytes()).unwrap().call;
    assert_eq!(call.salt.unwrap().as_str(), ok);
    let long = "x".repeat(129);
    let refused =
        refusal(chat::parse(chat_with(&format!("\"cache_salt\": \"{long}\"")).as_bytes()));
    assert!(refused.starts_with("400 [cache_salt]") && refused.contains("129"), "{refused}");
}

#[test]
fn tokenize_takes_text_or_a_conversation() {
    use tokenize::TokenizeInput;
    let piece = tokenize::parse(br#"{"prompt": "x", "add_special_tokens": false}"#).unwrap().input;
    assert_eq!(piece, TokenizeInput::Piece("x".into()));
    let prompt = tokenize::parse(br#"{"model": "m", "prompt": "x"}"#).unwrap();
    assert_eq!(prompt.input, TokenizeInput::Prompt(Prompt::Text("x".into())));
    assert_eq!(prompt.model.as_deref(), Some("m"));
    let chat =
        tokenize::parse(br#"{"messages": [{"role": "user", "content": "x"}]}"#).unwrap().input;
    assert_eq!(chat, TokenizeInput::Prompt(Prompt::Chat(vec![Message::user("x")])));
    for body in [
        "{}",
        r#"{"prompt": "x", "messages": [{"role": "user", "content": "x"}]}"#,
        r#"{"prompt": 5}"#,
    ] {
        assert!(refusal(tokenize::parse(body.as_bytes())).starts_with("400 ["));
    }
    assert_eq!(tokenize::parse_detokenize(br#"{"tokens": [1, 2]}"#).unwrap().input, [1, 2]);
    for body in ["{}", r#"{"tokens": "x"}"#, r#"{"tokens": [1, -1]}"#] {
        assert!(refusal(tokenize::parse_detokenize(body.as_bytes())).starts_with("400 [tokens"));
    }
}

#[test]
fn cache_control_is_read_leniently() {
    use std::time::Duration;
    let read = CacheDirectives::parse;
    assert_eq!(read("no-cache"), CacheDirectives { no_cache: true, ..Default::default() });
    assert_eq!(
        read("No-Store , max-age=\"60\", foo=bar"),
        CacheDirectives {
            no_store: true,
            max_age: Some(Duration::from_secs(60)),
            ..Default::default()
        }
    );
    assert_eq!(read("max-age=-5, ,,="), CacheDirectives::default());
    assert!(read("only-if-cached").only_if_cached);
    assert!(!read("max-age=0").may_read() && read("max-age=1").may_read());
    let both = read("max-age=5").and(read("max-age=3, no-store"));
    assert_eq!((both.max_age, both.may_store()), (Some(Duration::from_secs(3)), false));
}

proptest! {
    /// Whatever arrives, it is read or refused, and never more than that.
    #[test]
    fn no_body_panics(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = chat::parse(&body);
        let _ = completion::parse(&body);
        let _ = tokenize::parse(&body);
    }

    /// A known field with any JSON in it is read, or the refusal names it.
    #[test]
    fn any_value_is_read_or_named(field in prop::sample::select(&FIELDS[..]), value in any_json()) {
        let body = chat_with(&format!("{field:?}: {value}"));
        if let Err(error) = chat::parse(body.as_bytes()) {
            prop_assert_eq!(error.status(), 400);
            let named = error.field.unwrap_or_default();
            prop_assert!(named.starts_with(field) || field.starts_with(&named), "{} for {}", named, field);
            prop_assert!(!named.is_empty());
        }
    }
}

const FIELDS: [&str; 14] = [
    "model",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "logprobs",
    "stream",
    "stop_token_ids",
    "cache_salt",
    "ignore_eos",
    "user",
];

fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| format!("{f:e}")),
        "[a-z]{0,3}".prop_map(|s| format!("{s:?}")),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|list| format!("[{}]", list.join(","))),
            inner.prop_map(|value| format!("{{\"a\": {value}}}")),
        ]
    })
}

fn lowered(format: Format, body: &str) -> Result<Call, ApiError> {
    tapri_api::lower(&Inbound::read(format, body.to_owned().into(), Vec::new()).unwrap())
}

#[test]
fn a_message_with_everything() {
    let call = lowered(
        Format::Messages,
        r#"{"model": "m", "max_tokens": 7, "temperature": 0.5, "top_k": 40, "stop_sequences": ["x"], "cache_salt": "s",
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
            "thinking": {"type": "enabled", "budget_tokens": 1024}, "metadata": {"user_id": "u"}, "unknown": 1,
            "tools": [{"name": "get", "description": "d", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
            "messages": [
                {"role": "user", "content": "Weather?"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
                    {"type": "tool_use", "id": "t1", "name": "get", "input": {"a": 1}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "rain"}], "is_error": true},
                    {"type": "text", "text": "And?"}]}]}"#,
    )
    .unwrap();
    let Prompt::Chat(messages) = &call.prompt else { panic!("not a conversation") };
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::Tool, Role::User]);
    let called = ToolCall { id: "t1".into(), name: "get".into(), arguments: r#"{"a":1}"#.into() };
    assert_eq!(messages[2].parts, [Part::ToolCall(called)], "thinking is not read again");
    let result = ToolResult { id: "t1".into(), text: "rain".into(), is_error: true };
    assert_eq!(messages[3].parts, [Part::ToolResult(result)]);
    assert_eq!((call.max_tokens, call.sampling.top_k), (Some(7), Some(40)));
    assert_eq!(call.sampling.temperature, 0.5);
    assert_eq!(call.stop.strings, ["x"]);
    assert_eq!(call.salt.as_ref().map(|salt| salt.as_str()), Some("s"));
    assert_eq!((call.tools[0].name.as_str(), &call.tool_choice), ("get", &ToolChoice::Required));
    assert!(!call.parallel_tool_calls);
    assert_eq!(call.output, OutputFormat::JsonSchema(serde_json::json!({"type": "object"})));
}

#[test]
fn a_response_with_everything() {
    let call = lowered(
        Format::Responses,
        r#"{"model": "m", "instructions": "Be brief.", "max_output_tokens": 7, "top_logprobs": 2, "store": true,
            "reasoning": {"effort": "low"}, "text": {"format": {"type": "json_object"}}, "include": [],
            "tools": [{"type": "function", "name": "get", "parameters": {"type": "object"}, "strict": true}],
            "tool_choice": {"type": "function", "name": "get"}, "parallel_tool_calls": false,
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
                {"type": "function_call", "call_id": "c1", "name": "get", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "rain"}]}"#,
    )
    .unwrap();
    let Prompt::Chat(messages) = &call.prompt else { panic!("not a conversation") };
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::Tool]);
    assert_eq!(messages[2].parts.len(), 2, "words and the call are one message");
    assert_eq!((call.max_tokens, call.logprobs), (Some(7), Some(2)));
    assert_eq!(call.output, OutputFormat::JsonObject);
    assert_eq!(call.tool_choice, ToolChoice::Named("get".into()));
    assert!(call.tools[0].strict && !call.parallel_tool_calls);
    let call = lowered(Format::Responses, r#"{"input": "Hi"}"#).unwrap();
    assert_eq!(call.prompt, Prompt::Chat(vec![Message::user("Hi")]));
}

#[test]
fn refusals_of_messages_and_responses() {
    let hi = r#""max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]"#;
    let content = |block: &str| {
        format!(r#"{{"max_tokens": 5, "messages": [{{"role": "user", "content": [{block}]}}]}}"#)
    };
    let messages = [
        "{}".to_owned(),
        r#"{"messages": [{"role": "user", "content": "Hi"}]}"#.to_owned(),
        r#"{"max_tokens": 5, "messages": []}"#.to_owned(),
        r#"{"max_tokens": 5, "messages": [{"role": "robot", "content": "x"}]}"#.to_owned(),
        r#"{"max_tokens": 5, "messages": [{"role": "user", "content": 5}]}"#.to_owned(),
        r#"{"max_tokens": 5, "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}"#.to_owned(),
        content(r#"{"type": "image", "source": {"type": "url", "url": "x"}}"#),
        content(r#"{"type": "document", "source": {"type": "file", "file_id": "x"}}"#),
        content(r#"{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]}"#),
        content(r#"{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "2h"}}"#),
        content(r#"{"type": "robot"}"#),
        format!(r#"{{{hi}, "temperature": 1.5}}"#),
        format!(r#"{{{hi}, "max_tokens": "x"}}"#),
        format!(r#"{{{hi}, "stop_sequences": [""]}}"#),
        format!(r#"{{{hi}, "tools": [{{"type": "web_search_20250305", "name": "web_search"}}]}}"#),
        format!(r#"{{{hi}, "tool_choice": {{"type": "any"}}}}"#),
        format!(r#"{{{hi}, "tool_choice": {{"type": "tool", "name": "x"}}}}"#),
        format!(r#"{{{hi}, "container": "c"}}"#),
        format!(r#"{{{hi}, "thinking": {{"type": "perhaps"}}}}"#),
        format!(r#"{{{hi}, "output_config": {{"format": {{"type": "grammar"}}}}}}"#),
    ];
    let responses = [
        "{}",
        r#"{"input": 5}"#,
        r#"{"input": [{"type": "robot"}]}"#,
        r#"{"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}"#,
        r#"{"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]}"#,
        r#"{"input": [{"type": "item_reference", "id": "x"}]}"#,
        r#"{"input": "Hi", "previous_response_id": "resp_1"}"#,
        r#"{"input": "Hi", "conversation": "conv_1"}"#,
        r#"{"input": "Hi", "background": true}"#,
        r#"{"input": "Hi", "truncation": "auto"}"#,
        r#"{"input": "Hi", "tools": [{"type": "web_search"}]}"#,
        r#"{"input": "Hi", "text": {"verbosity": "low"}}"#,
        r#"{"input": "Hi", "text": {"format": {"type": "json_schema", "name": "x"}}}"#,
        r#"{"input": "Hi", "top_logprobs": 21}"#,
    ];
    let mut all = String::new();
    for case in messages {
        all.push_str(&format!("{case}\n    {}\n", refusal(lowered(Format::Messages, &case))));
    }
    for case in responses {
        all.push_str(&format!("{case}\n    {}\n", refusal(lowered(Format::Responses, case))));
    }
    insta::assert_snapshot!(all);
}
