//! Tools on the embedded engine, over tiny models whose answers are noise: only what is enforced holds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroUsize;

use serde_json::{Value, json};
use tapri_api::{
    ApiError, Call, CallEvent, Delta, Finish, FinishReason, Message, OutputFormat, Part, Prompt,
    Role, Sampling, Says, Tool, ToolCall, ToolChoice, ToolResult,
};
use tapri_engine::{Engine, EngineConfig};
use tapri_model::tiny::TinyModel;
use tapri_upstream::{Backend, Embedded};

/// As Qwen 2.5's, without its words.
const HERMES: &str = "{%- if tools %}{{- '<|im_start|>system\\n' }}{%- for tool in tools %}{{- tool | tojson }}{%- endfor %}\
{{- '<tool_call><|im_end|>\\n' }}{%- endif %}{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}\
{%- if message.content %}{{- message.content }}{%- endif %}{%- for call in message.tool_calls or [] %}\
{{- '<tool_call>' + call.function.name }}{{- call.function.arguments | tojson }}{{- '</tool_call>' }}{%- endfor %}\
{{- '<|im_end|>\\n' }}{%- endfor %}{{- '<|im_start|>assistant\\n' }}";

/// Takes no system message, and speakers in turn, as Gemma's.
const STRICT: &str = "{%- for message in messages %}{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}\
{{- raise_exception('roles must alternate') }}{%- endif %}{{- message.role + ': ' + message.content + '\\n' }}{%- endfor %}";

fn backend(template: Option<&str>) -> Embedded {
    let mut writer = TinyModel::llama().writer();
    if let Some(template) = template {
        writer.set("tokenizer.chat_template", template);
    }
    let gguf = tapri_gguf::Gguf::from_bytes(writer.to_bytes()).unwrap();
    let config = EngineConfig {
        threads: NonZeroUsize::new(2).unwrap(),
        kv_memory: 64 << 20,
        ..EngineConfig::default()
    };
    let engine = Engine::start_from(&gguf, "tiny".into(), config).unwrap();
    Embedded::new(engine, "tiny", vec![])
}

fn tool(name: &str, parameters: Value) -> Tool {
    Tool { name: name.to_owned(), description: Some("Does it.".into()), parameters, strict: false }
}

fn weather() -> Tool {
    let place = json!({ "type": "string", "maxLength": 8 });
    let unit = json!({ "enum": ["C", "F"] });
    tool(
        "weather",
        json!({ "type": "object", "properties": { "place": place, "unit": unit }, "required": ["place", "unit"] }),
    )
}

fn dice() -> Tool {
    tool(
        "roll \"dice\"",
        json!({ "type": "object", "properties": { "sides": { "type": "integer", "minimum": 2, "maximum": 20 } }, "required": ["sides"] }),
    )
}

fn call(choice: ToolChoice) -> Call {
    let mut call = Call::chat(vec![Message::user("what is the weather")]);
    call.tools = vec![weather(), dice()];
    call.tool_choice = choice;
    call.max_tokens = Some(600);
    call.sampling = Sampling { seed: Some(1), ..Sampling::default() };
    call
}

/// What an answer said.
#[derive(Debug, Default)]
struct Said {
    text: String,
    calls: Vec<(String, String, String)>,
    end: Option<FinishReason>,
}

async fn answers(backend: &Embedded, call: Call) -> Result<(Vec<Said>, Finish), ApiError> {
    let choices = call.choices;
    let mut stream = backend.start(call).await?;
    let mut all: Vec<Said> = (0..choices).map(|_| Said::default()).collect();
    while let Some(event) = stream.next().await {
        match event {
            CallEvent::Token(token) => all[0].text += &token.text,
            CallEvent::Piece(piece) => {
                assert!(piece.raw.is_none() && !piece.deltas.is_empty());
                for Delta { choice, says } in piece.deltas {
                    let said = &mut all[choice];
                    assert!(said.end.is_none());
                    match says {
                        Says::Text(text) => said.text += &text,
                        Says::Token(token) => said.text += &token.text,
                        Says::ToolCall { index, id, name } => {
                            assert_eq!(index, said.calls.len());
                            said.calls.push((id, name, String::new()));
                        }
                        Says::ToolArguments { index, json } => said.calls[index].2 += &json,
                        Says::End { reason, .. } => said.end = Some(reason),
                        other => panic!("{other:?}"),
                    }
                }
            }
            CallEvent::Finished(finish) => {
                all[0].text += &finish.tail;
                return Ok((all, finish));
            }
            CallEvent::Failed(error) => return Err(error),
            CallEvent::Admitted(_) | CallEvent::Prefill { .. } => {}
        }
    }
    panic!("no end");
}

async fn ask(backend: &Embedded, call: Call) -> (Said, Finish) {
    let (mut all, finish) = answers(backend, call).await.unwrap();
    (all.remove(0), finish)
}

fn is_valid(said: &(String, String, String)) -> bool {
    let (id, name, json) = said;
    let arguments: Value = serde_json::from_str(json).unwrap();
    let arguments = arguments.as_object().unwrap();
    let fits = match name.as_str() {
        "weather" => {
            arguments.len() == 2
                && arguments["place"].as_str().unwrap().chars().count() <= 8
                && ["C", "F"].contains(&arguments["unit"].as_str().unwrap())
        }
        "roll \"dice\"" => {
            arguments.len() == 1
                && (2..=20).contains(&(arguments["sides"].as_f64().unwrap() as i64))
        }
        _ => false,
    };
    fits && id.starts_with("call_") && id.len() == 29
}

#[tokio::test]
async fn a_tool_that_must_be_called_is_called() {
    // A template of the form, a model without a template, and one whose template takes no instructions.
    for template in [Some(HERMES), None, Some(STRICT)] {
        let backend = backend(template);
        let (said, finish) = ask(&backend, call(ToolChoice::Required)).await;
        assert_eq!((said.text.as_str(), said.end), ("", Some(FinishReason::ToolCalls)));
        assert_eq!(finish.reason, FinishReason::ToolCalls);
        assert!(!said.calls.is_empty() && said.calls.iter().all(is_valid), "{said:?}");
        assert!(finish.usage.answer().unwrap() > 10);

        let (said, _) = ask(&backend, call(ToolChoice::Named("roll \"dice\"".into()))).await;
        assert_eq!(said.calls.len(), 1, "one that is named is called once");
        assert_eq!(said.calls[0].1, "roll \"dice\"");
        assert!(is_valid(&said.calls[0]));
    }
}

#[tokio::test]
async fn one_call_at_most_and_none_at_all() {
    let backend = backend(Some(HERMES));
    let mut said_something = false;
    for seed in 0..6 {
        let with = |choice, parallel_tool_calls| Call {
            parallel_tool_calls,
            sampling: Sampling { seed: Some(seed), ..Sampling::default() },
            max_tokens: Some(300),
            ..call(choice)
        };
        let (said, _) = ask(&backend, with(ToolChoice::Required, false)).await;
        assert_eq!(said.calls.len(), 1);
        let (said, finish) = ask(&backend, with(ToolChoice::None, true)).await;
        assert!(said.calls.is_empty());
        assert_ne!(finish.reason, FinishReason::ToolCalls);
        assert!(!said.text.contains("<tool_call>"));
        said_something |= !said.text.is_empty();
    }
    assert!(said_something);
}

#[tokio::test]
async fn the_model_decides_between_a_shape_and_a_call() {
    let backend = backend(None);
    let mut seen = [false; 2];
    for seed in 0..12 {
        let mut call = call(ToolChoice::Auto);
        call.sampling.seed = Some(seed);
        call.parallel_tool_calls = false;
        call.output = OutputFormat::JsonSchema(json!({
            "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"]
        }));
        let (said, _) = ask(&backend, call).await;
        if said.calls.is_empty() {
            let value: Value = serde_json::from_str(&said.text).unwrap();
            assert!(value["ok"].is_boolean() && value.as_object().unwrap().len() == 1);
        } else {
            assert!(said.text.is_empty() && said.calls.iter().all(is_valid), "{said:?}");
        }
        seen[usize::from(said.calls.is_empty())] = true;
    }
    assert_eq!(seen, [true; 2], "noise says either");
}

#[tokio::test]
async fn a_free_answer_is_what_it_was_without_a_parser() {
    let backend = backend(Some(HERMES));
    let call = call(ToolChoice::Auto);
    let ids = backend.tokenize(Prompt::Chat(vec![])).await;
    assert!(ids.is_ok());
    let (said, finish) = ask(&backend, call.clone()).await;
    // Noise calls nothing; token by token it is the same text.
    assert!(said.calls.is_empty());
    assert_eq!(said.end, Some(finish.reason));
    let (again, _) = ask(&backend, call).await;
    assert_eq!(said.text, again.text);
}

#[tokio::test]
async fn what_strict_arguments_cannot_keep_to_is_refused_and_others_are_not() {
    let backend = backend(None);
    let odd = json!({ "type": "object", "properties": { "a": { "not": {} } }, "required": ["a"] });
    let mut strict = call(ToolChoice::Required);
    strict.tools = vec![Tool { strict: true, ..tool("odd", odd.clone()) }];
    let error = answers(&backend, strict).await.unwrap_err();
    assert_eq!(
        (error.status(), error.field.as_deref(), error.code.as_deref()),
        (400, Some("tools[0].function.parameters"), Some("unsupported_schema"))
    );
    assert!(error.message.contains("`not` at /properties/a"), "{error}");
    let mut loose = call(ToolChoice::Named("odd".into()));
    loose.tools = vec![tool("odd", odd)];
    loose.max_tokens = Some(60);
    let (said, _) = ask(&backend, loose).await;
    assert_eq!(said.calls[0].1, "odd");
    // A schema that only the compiler finds wanting.
    let mut none = call(ToolChoice::Required);
    none.tools = vec![tool(
        "none",
        json!({ "type": "object", "properties": { "a": false }, "required": ["a"] }),
    )];
    none.max_tokens = Some(60);
    assert_eq!(ask(&backend, none).await.0.calls[0].1, "none");
    let error = answers(&backend, call(ToolChoice::Named("gone".into()))).await.unwrap_err();
    assert_eq!((error.status(), error.field.as_deref()), (400, Some("tool_choice")));
}

#[tokio::test]
async fn a_shape_that_cannot_be_kept_to_names_its_field() {
    let backend = backend(None);
    let mut call = Call::chat(vec![Message::user("hi")]);
    call.output = OutputFormat::JsonSchema(json!({ "type": "object", "if": {} }));
    let error = answers(&backend, call).await.unwrap_err();
    assert_eq!((error.status(), error.field.as_deref()), (400, Some("response_format")));
    assert!(error.message.contains("`if` at the schema's root"), "{error}");
}

#[tokio::test]
async fn several_answers_count_their_prompt_once() {
    let backend = backend(None);
    let text = |choices| Call {
        choices,
        max_tokens: Some(20),
        sampling: Sampling { seed: Some(3), ..Sampling::default() },
        ..Call::chat(vec![Message::user("what is the weather in these parts")])
    };
    let (one, alone) = ask(&backend, text(1)).await;
    let (many, finish) = answers(&backend, text(3)).await.unwrap();
    assert_eq!(many[0].text, one.text);
    assert!(many[1].text != many[0].text && many[2].text != many[0].text);
    assert!(many.iter().all(|said| said.end.is_some()));
    assert_eq!(finish.usage.prompt(), alone.usage.prompt());
    assert!(finish.usage.answer() > alone.usage.answer());
    let (many, finish) =
        answers(&backend, Call { choices: 2, ..call(ToolChoice::Required) }).await.unwrap();
    assert!(many.iter().all(|said| !said.calls.is_empty()), "{many:?}");
    assert!(finish.usage.answer().unwrap() > 20);
    let ids = |said: &Said| said.calls.iter().map(|call| call.0.clone()).collect::<Vec<_>>();
    assert_ne!(ids(&many[0]), ids(&many[1]));
    let error = answers(&backend, text(17)).await.unwrap_err();
    assert_eq!((error.status(), error.field.as_deref()), (400, Some("n")));
}

/// The prompt of a conversation with a call and its results.
async fn prompt(template: Option<&str>) -> String {
    let backend = backend(template);
    let turn = |role, parts| Message { role, parts, name: None };
    let mut call = call(ToolChoice::Auto);
    call.tools = vec![weather()];
    call.prompt = Prompt::Chat(vec![
        Message::user("Weather in Pune and Goa?"),
        turn(
            Role::Assistant,
            vec![
                Part::Text("I look.".into()),
                Part::ToolCall(ToolCall {
                    id: "call_1".into(),
                    name: "weather".into(),
                    arguments: r#"{"place": "Pune"}"#.into(),
                }),
                Part::ToolCall(ToolCall {
                    id: "call_2".into(),
                    name: "weather".into(),
                    arguments: r#"{"place": "Goa"}"#.into(),
                }),
            ],
        ),
        turn(
            Role::Tool,
            vec![Part::ToolResult(ToolResult {
                id: "call_1".into(),
                text: "31".into(),
                is_error: false,
            })],
        ),
        turn(
            Role::Tool,
            vec![Part::ToolResult(ToolResult {
                id: "call_2".into(),
                text: "no".into(),
                is_error: true,
            })],
        ),
    ]);
    call.max_tokens = Some(1);
    let mut stream = backend.start(call).await.unwrap();
    let Some(CallEvent::Admitted(admission)) = stream.next().await else { panic!() };
    backend.detokenize(admission.prompt_ids.unwrap().to_vec()).await.unwrap()
}

#[tokio::test]
async fn prompts_with_tools() {
    insta::assert_snapshot!("prompt_of_a_template_with_tools", prompt(Some(HERMES)).await);
    insta::assert_snapshot!("prompt_without_a_template", prompt(None).await);
    insta::assert_snapshot!(
        "prompt_of_a_template_without_instructions",
        prompt(Some(STRICT)).await
    );
}
