//! What answers say, streamed and whole.

use serde_json::json;
use tapri_api::decode::Options;
use tapri_api::{CallEvent, FinishReason, Format, Says};

use super::{body, finish, raws, said, stream};

fn end(reason: FinishReason) -> (usize, Says) {
    (0, Says::End { reason, matched_stop: None })
}

fn text(words: &str) -> (usize, Says) {
    (0, Says::Text(words.into()))
}

fn call(index: usize, id: &str, name: &str) -> (usize, Says) {
    (0, Says::ToolCall { index, id: id.into(), name: name.into() })
}

fn arguments(index: usize, json: &str) -> (usize, Says) {
    (0, Says::ToolArguments { index, json: json.into() })
}

#[test]
fn chat_with_thinking_and_tools() {
    let lines = [
        r#"{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"Hm"}}]}"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{"reasoning":"m.","reasoning_content":null}}]}"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{"content":"Look"}}]}"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"get","arguments":""}}]}}]}"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}}]}"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"put","arguments":"{}"}}]}}]}"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
        "[DONE]",
    ];
    let events = stream(Format::Chat, Options::default(), &lines);
    let expected = [
        (0, Says::Thinking("Hmm.".into())),
        text("Look"),
        call(0, "call_1", "get"),
        arguments(0, r#"{"a":1}"#),
        call(1, "call_2", "put"),
        arguments(1, "{}"),
        end(FinishReason::ToolCalls),
    ];
    assert_eq!(said(&events), expected);
    assert_eq!(raws(&events), &lines[..9], "every chunk is kept as it came");
    let whole = body(
        Format::Chat,
        r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","reasoning_content":"Hmm.","content":"Look","refusal":null,"annotations":[],"tool_calls":[{"id":"call_1","type":"function","function":{"name":"get","arguments":"{\"a\":1}"}},{"id":"call_2","type":"function","function":{"name":"put","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
    );
    assert_eq!(said(&whole), expected);
}

#[test]
fn several_answers_and_the_worst_end_counts() {
    let events = stream(
        Format::Chat,
        Options { choices: 2, ..Options::default() },
        &[
            r#"{"choices":[{"index":0,"delta":{"content":"A"}},{"index":1,"delta":{"content":"B"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":"\n"}]}"#,
            "[DONE]",
        ],
    );
    assert_eq!(said(&events)[1], (1, Says::Text("B".into())));
    let finish = finish(&events);
    assert_eq!(finish.reason, FinishReason::Length);
    assert_eq!(finish.matched_stop.as_deref(), Some("\n"));
}

#[test]
fn a_refusal_is_no_good_end() {
    let events = body(
        Format::Chat,
        r#"{"choices":[{"index":0,"message":{"content":null,"refusal":"No."},"finish_reason":"stop"}]}"#,
    );
    assert_eq!(finish(&events).reason, FinishReason::ContentFilter);
    assert_eq!(said(&events)[0], (0, Says::Refusal("No.".into())));
}

#[test]
fn fields_of_one_format_and_logprobs_are_kept() {
    let events = body(
        Format::Chat,
        r#"{"choices":[{"index":0,"message":{"content":"A","annotations":[{"type":"url_citation"}],"audio":null},"logprobs":{"content":[{"token":"A","logprob":-0.1}]},"finish_reason":"stop"}]}"#,
    );
    let said = said(&events);
    let annotations = json!([{"type": "url_citation"}]);
    assert_eq!(said[1].1, Says::Other { field: "annotations".into(), value: annotations });
    let logprobs = json!({"content": [{"token": "A", "logprob": -0.1}]});
    assert_eq!(said[2].1, Says::Logprobs(logprobs));
}

#[test]
fn completions() {
    let events = stream(
        Format::Completion,
        Options::default(),
        &[
            r#"{"id":"c","object":"text_completion","choices":[{"index":0,"text":"Go","logprobs":null,"finish_reason":null}]}"#,
            r#"{"id":"c","object":"text_completion","choices":[{"index":0,"text":"od","finish_reason":"length"}]}"#,
            "[DONE]",
        ],
    );
    assert_eq!(said(&events), [text("Good"), end(FinishReason::Length)]);
}

#[test]
fn the_usage_that_only_the_gateway_asked_for_is_hidden() {
    let lines = [
        r#"{"id":"c","choices":[{"index":0,"delta":{"content":"says ,\"usage\":null"}}],"usage":null}"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
        r#"{"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#,
        "[DONE]",
    ];
    let options = Options { client_usage: false, ..Options::default() };
    let events = stream(Format::Chat, options, &lines);
    assert_eq!(
        raws(&events),
        [
            r#"{"id":"c","choices":[{"index":0,"delta":{"content":"says ,\"usage\":null"}}]}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        ]
    );
    assert_eq!(finish(&events).usage.total(), Some(7));
    assert_eq!(&*finish(&events).raw.as_ref().unwrap().data, lines[2]);
    let seen = stream(Format::Chat, Options::default(), &lines);
    assert_eq!(raws(&seen), &lines[..2]);
}

#[test]
fn messages_with_thinking_tools_and_a_block_of_its_own() {
    let lines = [
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"usage":{"input_tokens":5,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"query\":"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"x\"}"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Look"}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"get","input":{}}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}"#,
        r#"{"type":"content_block_stop","index":3}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let events = stream(Format::Messages, Options::default(), &lines);
    let search = json!([{"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}]);
    let expected = [
        (0, Says::Thinking("Hm".into())),
        (0, Says::ThinkingSignature("c2ln".into())),
        (0, Says::Other { field: "content".into(), value: search }),
        text("Look"),
        call(0, "toolu_1", "get"),
        arguments(0, r#"{"a":1}"#),
        end(FinishReason::ToolCalls),
    ];
    assert_eq!(said(&events), expected);
    assert_eq!(raws(&events), lines, "pings and all");
    let CallEvent::Piece(first) = &events[0] else { panic!() };
    assert_eq!(first.raw.as_ref().unwrap().event.as_deref(), Some("message_start"));
    let whole = body(
        Format::Messages,
        r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[{"type":"thinking","thinking":"Hm","signature":"c2ln"},{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"x"}},{"type":"text","text":"Look"},{"type":"tool_use","id":"toolu_1","name":"get","input":{"a":1}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":9}}"#,
    );
    assert_eq!(said(&whole), expected);
    assert_eq!(finish(&whole).usage, finish(&events).usage);
}

#[test]
fn a_message_s_stop_sequence() {
    let events = body(
        Format::Messages,
        r#"{"type":"message","content":[{"type":"text","text":"A"}],"stop_reason":"stop_sequence","stop_sequence":"END"}"#,
    );
    assert_eq!(finish(&events).matched_stop.as_deref(), Some("END"));
    assert_eq!(finish(&events).reason, FinishReason::Stop);
}

#[test]
fn responses_with_reasoning_and_a_call() {
    let lines = [
        r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","output":[]}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}"#,
        r#"{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Hm"}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm"}],"encrypted_content":"ZW5j"}}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"item_id":"msg_1","delta":"Lo","logprobs":[]}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"item_id":"msg_1","delta":"ok"}"#,
        r#"{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"get","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":2,"item_id":"fc_1","delta":"{\"a\":1}"}"#,
        r#"{"type":"response.function_call_arguments.done","output_index":2,"item_id":"fc_1","arguments":"{\"a\":1}"}"#,
        r#"{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":9,"total_tokens":14}}}"#,
    ];
    let events = stream(Format::Responses, Options::default(), &lines);
    let expected = [
        (0, Says::Thinking("Hm".into())),
        (0, Says::ThinkingSignature("openai-reasoning:rs_1:ZW5j".into())),
        text("Look"),
        call(0, "call_1", "get"),
        arguments(0, r#"{"a":1}"#),
        end(FinishReason::ToolCalls),
    ];
    assert_eq!(said(&events), expected);
    assert_eq!(raws(&events), lines);
    let whole = body(
        Format::Responses,
        r#"{"id":"resp_1","status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm"}],"encrypted_content":"ZW5j"},{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Look","annotations":[]}]},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"get","arguments":"{\"a\":1}"}],"usage":{"input_tokens":5,"output_tokens":9,"total_tokens":14}}"#,
    );
    assert_eq!(said(&whole), expected);
}

#[test]
fn a_response_that_is_incomplete() {
    let events = body(
        Format::Responses,
        r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[],"usage":null}"#,
    );
    assert_eq!(finish(&events).reason, FinishReason::Length);
    assert!(finish(&events).usage.is_unknown());
}
