//! Chat templates: golden renderings, the features that Hugging Face's templates use, limits.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use serde_json::{Map, Value, json};
use tapri_gguf::{Gguf, Writer};
use tapri_text::{ChatTemplate, RenderInput, TemplateError, Tokenizer, ZonedDateTime};

mod tiny;
use tiny::tiny;

fn now() -> ZonedDateTime {
    "2026-07-05T03:04:05+05:30[Asia/Kolkata]".parse().unwrap()
}

fn try_render(source: &str, messages: &[Value], tools: &[Value]) -> Result<String, TemplateError> {
    let tokenizer = Tokenizer::from_gguf(&Gguf::from_bytes(tiny().to_bytes()).unwrap()).unwrap();
    let template = ChatTemplate::new(source, &tokenizer)?;
    let variables = json!({"enable_thinking": false, "messages": "not these"});
    let input = RenderInput {
        messages,
        tools,
        add_generation_prompt: true,
        now: &now(),
        variables: variables.as_object().unwrap(),
    };
    Ok(template.render(&input)?.text().to_owned())
}

fn render(source: &str, messages: &[Value]) -> String {
    try_render(source, messages, &[]).unwrap()
}

#[test]
fn golden_renderings_match_and_a_model_without_a_template_says_so() {
    for (model, file, fallback) in [
        ("gemma-3-270m", "gemma-3-270m-q4_k_m.json", true),
        ("smollm2", "smollm2-135m-instruct-q4_1.json", false),
    ] {
        let gguf = Gguf::open(tapri_registry::test_model(model)).unwrap();
        let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
        let template = ChatTemplate::from_gguf(&gguf, &tokenizer).unwrap();
        assert_eq!(template.is_fallback(), fallback, "{model}");
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data/golden").join(file);
        let golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for row in golden["chat_template"].as_array().unwrap() {
            let input = RenderInput {
                messages: row["messages"].as_array().unwrap(),
                tools: &[],
                add_generation_prompt: true,
                now: &now(),
                variables: &Map::new(),
            };
            assert_eq!(
                template.render(&input).unwrap().text(),
                row["prompt"].as_str().unwrap(),
                "{model}"
            );
        }
    }
}

#[test]
fn a_file_without_a_template_gets_chatml_and_one_with_uses_its_own() {
    let open = |writer: &Writer| Gguf::from_bytes(writer.to_bytes()).unwrap();
    let render = |gguf: &Gguf, tools: &[Value]| {
        let template = ChatTemplate::from_gguf(gguf, &Tokenizer::from_gguf(gguf).unwrap()).unwrap();
        let messages = [
            json!({"role": "assistant", "content": null}),
            json!({"role": "user", "content": "x"}),
        ];
        let input = RenderInput {
            messages: &messages,
            tools,
            add_generation_prompt: false,
            now: &now(),
            variables: &Map::new(),
        };
        (template.render(&input).unwrap().text().to_owned(), template.is_fallback())
    };
    let chatml = "<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\nx<|im_end|>\n";
    assert_eq!(render(&open(&tiny()), &[]), (chatml.to_owned(), true));
    let mut own = tiny();
    own.set("tokenizer.chat_template", "{{ messages|length }}")
        .set("tokenizer.chat_template.tool_use", "tools!");
    assert_eq!(render(&open(&own), &[]), ("2".to_owned(), false));
    assert_eq!(render(&open(&own), &[json!({"name": "f"})]), ("tools!".to_owned(), false));
    let mut wrong = tiny();
    wrong.set("tokenizer.chat_template", 7u32);
    let gguf = open(&wrong);
    let error = ChatTemplate::from_gguf(&gguf, &Tokenizer::from_gguf(&gguf).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "`tokenizer.chat_template` is a u32 (7), but a string is needed");
}

#[test]
fn blocks_are_trimmed_as_hugging_face_does() {
    let source = "{% for m in messages %}\n    {% if m.role == 'user' %}\n[{{ m.content }}]\n    {% endif %}\n{% endfor %}\nend\n";
    assert_eq!(render(source, &[json!({"role": "user", "content": "a"})]), "[a]\nend");
}

#[test]
fn python_methods_loop_controls_and_generation_tags_work() {
    let source = "{%- for m in messages -%}{%- if m.role == 'skip' -%}{%- continue -%}{%- endif -%}\
{{ m.get('name', 'nobody') }}: {{ m['content'].strip().split(' ')[-1].upper() }}{{ m.items()|list|length }};\
{%- if loop.index == 3 %}{% break %}{% endif -%}{% generation %}g{% endgeneration %}{%- endfor -%}\
{{ messages[::-1][0].role }} {{ '%s'|format('f') }}{{ none }}{{ true }}";
    let messages = [
        json!({"role": "user", "content": " one two "}),
        json!({"role": "skip", "content": ""}),
        json!({"role": "user", "content": "three", "name": "n"}),
        json!({"role": "last", "content": "never"}),
    ];
    assert_eq!(render(source, &messages), "nobody: TWO2;gn: THREE3;last fNoneTrue");
}

#[test]
fn the_clock_is_the_callers() {
    let source = "{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%Y-%m-%dT%H:%M:%S %A %j') }}";
    assert_eq!(render(source, &[]), "05 Jul 2026|2026-07-05T03:04:05 Sunday 186");
    let error = try_render("{{ strftime_now('%!') }}", &[], &[]).unwrap_err();
    assert!(matches!(error, TemplateError::Render(_)), "{error}");
}

#[test]
fn tojson_is_pythons() {
    let tool = json!({"z": [1, 2.5, 1e100, 1e-7, -3], "a": {"text": "<é>&'\"\n\u{1}\u{2028}"}, "e": [], "o": {}, "n": null, "t": true});
    let one_line = r#"{"z": [1, 2.5, 1e+100, 1e-07, -3], "a": {"text": "<é>&'\"\n\u0001 "}, "e": [], "o": {}, "n": null, "t": true}"#
        .replace("\\u0001 ", "\\u0001\u{2028}");
    assert_eq!(
        try_render("{{ tools[0]|tojson }}", &[], std::slice::from_ref(&tool)).unwrap(),
        one_line
    );
    let small = json!({"b": [1, {"c": "é🙂"}], "a": {}});
    let renders = |filter: &str, wanted: &str| {
        let source = format!("{{{{ tools[0]|tojson({filter}) }}}}");
        assert_eq!(
            try_render(&source, &[], std::slice::from_ref(&small)).unwrap(),
            wanted,
            "{filter}"
        );
    };
    renders(
        "indent=2",
        "{\n  \"b\": [\n    1,\n    {\n      \"c\": \"é🙂\"\n    }\n  ],\n  \"a\": {}\n}",
    );
    renders("separators=(',', ':')", r#"{"b":[1,{"c":"é🙂"}],"a":{}}"#);
    renders("sort_keys=true", r#"{"a": {}, "b": [1, {"c": "é🙂"}]}"#);
    renders("ensure_ascii=true", r#"{"b": [1, {"c": "\u00e9\ud83d\ude42"}], "a": {}}"#);
    assert!(try_render("{{ tools|tojson(indent=65) }}", &[], &[]).is_err());
    assert!(try_render("{{ tools|tojson(colour=1) }}", &[], &[]).is_err());
}

#[test]
fn variables_are_there_but_replace_nothing() {
    let source = "{{ enable_thinking }} {{ messages|length }} {{ tools is none }} {{ documents is none }} {{ undefined_name }}|\
{{ bos_token }}{{ eos_token }}";
    assert_eq!(render(source, &[json!({})]), "False 1 True True |<s></s>");
}

#[test]
fn a_refusal_carries_the_templates_message() {
    let source = "{% macro check(m) %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% endmacro %}\
{% for m in messages %}{{ check(m) }}{% endfor %}";
    let error = try_render(source, &[json!({"role": "system", "content": ""})], &[]).unwrap_err();
    assert!(
        matches!(&error, TemplateError::Raised(message) if message == "System role not supported")
    );
    assert_eq!(
        error.to_string(),
        "the model's chat template refuses these messages: System role not supported"
    );
}

#[test]
fn bad_templates_are_errors() {
    assert!(matches!(try_render("{% for %}", &[], &[]), Err(TemplateError::Syntax(_))));
    assert!(matches!(
        try_render("{{ messages[0].content.x.y }}", &[], &[]),
        Err(TemplateError::Render(_))
    ));
    assert!(matches!(try_render("{{ nothing() }}", &[], &[]), Err(TemplateError::Render(_))));
    assert!(matches!(
        try_render("{% include '/etc/passwd' %}", &[], &[]),
        Err(TemplateError::Render(_))
    ));
}

#[test]
fn hostile_templates_run_into_a_limit() {
    for source in [
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ 'x' * 10000000000 }}",
        "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
    ] {
        let error = try_render(source, &[], &[]).unwrap_err();
        assert!(matches!(error, TemplateError::Limit(_)), "{source}: {error}");
    }
    let nested =
        format!("{}1{}", "{{ (".to_owned() + &"(".repeat(100_000), ")".repeat(100_001) + " }}");
    assert!(try_render(&nested, &[], &[]).is_err());
}

#[test]
fn a_long_conversation_is_far_from_the_limit() {
    let long = "word ".repeat(1000);
    let messages: Vec<Value> =
        (0..1000).map(|_| json!({"role": "user", "content": long})).collect();
    let source = "{% for m in messages %}{{ '<a>' + m['role'] + '\n' + m['content'] | trim + '<b>' + '\n' }}{% endfor %}";
    assert_eq!(render(source, &messages).len(), 1000 * ("<a>user\n".len() + 4999 + "<b>\n".len()));
}
