//! Requests of each format, made from a row of random bytes.

use serde_json::{Map, Value, json};

use crate::Format;

/// Random choices; when the bytes are used up, the first of each.
#[derive(Debug, Clone)]
pub(super) struct Dice {
    bytes: Vec<u8>,
    at: usize,
}

impl Dice {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Dice { bytes, at: 0 }
    }

    fn roll(&mut self, sides: usize) -> usize {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(byte) % sides
    }

    fn coin(&mut self) -> bool {
        self.roll(2) == 1
    }

    fn word(&mut self) -> String {
        const WORDS: [&str; 6] = ["a", "Long\ntext", "\"quoted\"", "é 茶", "{\"x\":1}", "Fehler"];
        WORDS[self.roll(6)].into()
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }
}

fn set(body: &mut Value, name: &str, value: Value) {
    if let Value::Object(fields) = body {
        fields.insert(name.into(), value);
    }
}

fn openai_mark(dice: &mut Dice, part: &mut Value) {
    match dice.roll(6) {
        3 => set(part, "prompt_cache_breakpoint", json!({"mode": "explicit"})),
        4 => set(part, "prompt_cache_breakpoint", json!({"mode": "explicit", "ttl": "12h"})),
        // As gateways take it.
        5 => set(part, "cache_control", json!({"type": "ephemeral", "ttl": "5m"})),
        _ => {}
    }
}

fn anthropic_mark(dice: &mut Dice, block: &mut Value) {
    match dice.roll(6) {
        4 => set(block, "cache_control", json!({"type": "ephemeral"})),
        5 => set(block, "cache_control", json!({"type": "ephemeral", "ttl": "1h"})),
        _ => {}
    }
}

fn schema(dice: &mut Dice) -> Value {
    json!({"type": "object", "properties": {dice.one(&["city", "cache_control"]): {"type": "string"}}})
}

fn sampling(dice: &mut Dice, body: &mut Value) {
    if dice.coin() {
        set(body, "model", json!("m"));
    }
    if dice.coin() {
        set(body, "temperature", json!(0.5));
    }
    if dice.coin() {
        set(body, "top_p", json!(0.9));
    }
    if dice.coin() {
        set(body, "stream", json!(true));
    }
}

pub(super) fn chat(mut dice: Dice, to: Format) -> Value {
    let dice = &mut dice;
    let mut messages = Vec::new();
    if dice.coin() {
        let role = dice.one(&["system", "developer"]);
        messages.push(json!({"role": role, "content": chat_content(dice, false)}));
    }
    for turn in 0..=dice.roll(3) {
        messages.push(json!({"role": "user", "content": chat_content(dice, true)}));
        if dice.coin() {
            chat_answer(dice, turn, &mut messages);
        }
    }
    if messages.last().is_some_and(|message| message["role"] == "assistant") {
        messages.push(json!({"role": "user", "content": dice.word()}));
    }
    let mut body = json!({"messages": messages});
    sampling(dice, &mut body);
    if dice.coin() {
        set(&mut body, dice.one(&["max_tokens", "max_completion_tokens"]), json!(50));
    }
    if dice.coin() && to == Format::Messages {
        set(&mut body, "stop", json!(["x", "y"]));
        set(&mut body, "top_k", json!(40));
    }
    if dice.coin() && to == Format::Responses {
        set(&mut body, "verbosity", json!("low"));
        set(&mut body, "logprobs", json!(true));
        set(&mut body, "top_logprobs", json!(3));
    }
    if dice.coin() {
        set(&mut body, "user", json!("u"));
    }
    if dice.coin() {
        set(&mut body, "reasoning_effort", json!(dice.one(&["none", "low", "high"])));
    }
    if dice.coin() {
        let schema = schema(dice);
        let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": true}});
        set(&mut body, "response_format", format);
    }
    if dice.coin() {
        let mut tool =
            json!({"type": "function", "function": {"name": "get", "parameters": schema(dice)}});
        if dice.coin() {
            tool["function"]["description"] = json!("d");
            tool["function"]["strict"] = json!(true);
        }
        set(&mut body, "tools", json!([tool]));
        openai_choice(dice, &mut body, json!({"type": "function", "function": {"name": "get"}}));
    }
    if dice.roll(4) == 3 {
        set(&mut body, "prompt_cache_options", json!({"mode": "implicit"}));
    }
    body
}

fn openai_choice(dice: &mut Dice, body: &mut Value, named: Value) {
    match dice.roll(4) {
        1 => set(body, "tool_choice", json!("required")),
        2 => set(body, "tool_choice", named),
        3 => set(body, "parallel_tool_calls", json!(false)),
        _ => {}
    }
}

fn chat_content(dice: &mut Dice, images: bool) -> Value {
    if dice.coin() {
        return dice.word().into();
    }
    let parts = (0..=dice.roll(2)).map(|_| {
        let mut part = match dice.roll(4) {
            2 if images => json!({"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}),
            3 if images => json!({"type": "file", "file": {"filename": "f", "file_data": "data:application/pdf;base64,aGk="}}),
            _ => json!({"type": "text", "text": dice.word()}),
        };
        openai_mark(dice, &mut part);
        part
    });
    parts.collect()
}

fn chat_answer(dice: &mut Dice, turn: usize, messages: &mut Vec<Value>) {
    let calls = dice.roll(3);
    let mut message = json!({"role": "assistant", "content": dice.word()});
    if dice.roll(3) == 2 {
        message["thinking_blocks"] =
            json!([{"type": "thinking", "thinking": "Hm", "signature": "c2ln"}]);
    }
    if calls == 0 {
        messages.push(message);
        return;
    }
    if dice.coin() {
        message["content"] = Value::Null;
    }
    let id = |i: usize| format!("call_{turn}_{i}");
    message["tool_calls"] = (0..calls)
        .map(|i| json!({"id": id(i), "type": "function", "function": {"name": "get", "arguments": "{\"city\": \"Pune\"}"}}))
        .collect();
    messages.push(message);
    for i in 0..calls {
        let content = chat_content(dice, false);
        messages.push(json!({"role": "tool", "tool_call_id": id(i), "content": content}));
    }
}

pub(super) fn messages(mut dice: Dice, to: Format) -> Value {
    let dice = &mut dice;
    let mut list = Vec::new();
    for turn in 0..=dice.roll(3) {
        list.push(json!({"role": "user", "content": anthropic_content(dice, true)}));
        if dice.coin() {
            anthropic_answer(dice, turn, &mut list);
        }
    }
    if list.last().is_some_and(|message| message["role"] == "assistant") {
        list.push(json!({"role": "user", "content": dice.word()}));
    }
    let mut body = json!({"max_tokens": 100, "messages": list});
    sampling(dice, &mut body);
    if dice.coin() {
        let system = anthropic_content(dice, false);
        set(&mut body, "system", system);
    }
    if dice.coin() && to == Format::Chat {
        set(&mut body, "stop_sequences", json!(["x"]));
        set(&mut body, "top_k", json!(40));
    }
    if dice.coin() {
        set(&mut body, "metadata", json!({"user_id": "u"}));
    }
    let mut config = Map::new();
    match dice.roll(5) {
        1 => set(&mut body, "thinking", json!({"type": "disabled"})),
        2 => set(&mut body, "thinking", json!({"type": "enabled", "budget_tokens": 4000})),
        3 => {
            set(&mut body, "thinking", json!({"type": "adaptive"}));
            config.insert("effort".into(), json!("high"));
        }
        4 => {
            config.insert("effort".into(), json!("low"));
        }
        _ => {}
    }
    if dice.coin() {
        config.insert("format".into(), json!({"type": "json_schema", "schema": schema(dice)}));
    }
    if !config.is_empty() {
        set(&mut body, "output_config", Value::Object(config));
    }
    if dice.coin() {
        let mut tool = json!({"name": "get", "input_schema": schema(dice)});
        anthropic_mark(dice, &mut tool);
        set(&mut body, "tools", json!([tool]));
        match dice.roll(4) {
            1 => set(
                &mut body,
                "tool_choice",
                json!({"type": "any", "disable_parallel_tool_use": true}),
            ),
            2 => set(&mut body, "tool_choice", json!({"type": "tool", "name": "get"})),
            3 => set(&mut body, "tool_choice", json!({"type": "none"})),
            _ => {}
        }
    }
    if dice.roll(4) == 3 {
        set(&mut body, "cache_control", json!({"type": "ephemeral", "ttl": "1h"}));
    }
    body
}

fn anthropic_content(dice: &mut Dice, images: bool) -> Value {
    if dice.coin() {
        return dice.word().into();
    }
    let blocks = (0..=dice.roll(2)).map(|_| {
        let mut block = match dice.roll(4) {
            2 if images => json!({"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}}),
            3 if images => json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}}),
            _ => json!({"type": "text", "text": dice.word()}),
        };
        anthropic_mark(dice, &mut block);
        block
    });
    blocks.collect()
}

fn anthropic_answer(dice: &mut Dice, turn: usize, list: &mut Vec<Value>) {
    let calls = dice.roll(3);
    let mut content = Vec::new();
    match dice.roll(4) {
        2 => content.push(json!({"type": "thinking", "thinking": "Hm", "signature": "c2ln"})),
        3 => content.push(json!({"type": "redacted_thinking", "data": "ZGF0YQ=="})),
        _ => {}
    }
    if calls == 0 || dice.coin() {
        let mut text = json!({"type": "text", "text": dice.word()});
        anthropic_mark(dice, &mut text);
        content.push(text);
    }
    let id = |i: usize| format!("toolu_{turn}_{i}");
    for i in 0..calls {
        let mut call =
            json!({"type": "tool_use", "id": id(i), "name": "get", "input": {"city": "Pune"}});
        anthropic_mark(dice, &mut call);
        content.push(call);
    }
    list.push(json!({"role": "assistant", "content": content}));
    if calls == 0 {
        return;
    }
    let mut answers: Vec<Value> = (0..calls)
        .map(|i| {
            let mut result = json!({"type": "tool_result", "tool_use_id": id(i)});
            match dice.roll(4) {
                1 => set(&mut result, "content", anthropic_content(dice, false)),
                2 => {
                    set(&mut result, "content", json!("broken"));
                    set(&mut result, "is_error", json!(true));
                }
                3 => set(&mut result, "is_error", json!(true)),
                _ => set(&mut result, "content", json!(dice.word())),
            }
            anthropic_mark(dice, &mut result);
            result
        })
        .collect();
    if dice.coin() {
        answers.push(json!({"type": "text", "text": dice.word()}));
    }
    list.push(json!({"role": "user", "content": answers}));
}

pub(super) fn responses(mut dice: Dice, to: Format) -> Value {
    let dice = &mut dice;
    let mut items = Vec::new();
    for turn in 0..=dice.roll(3) {
        items.push(json!({"type": "message", "role": "user", "content": response_content(dice)}));
        if dice.coin() {
            response_answer(dice, turn, &mut items);
        }
    }
    let answered = |item: &Value| item["role"] == "assistant" || item["type"] == "reasoning";
    if items.last().is_some_and(answered) {
        items.push(json!({"role": "user", "content": dice.word()}));
    }
    let mut body = json!({"input": items});
    if dice.roll(5) == 4 {
        body["input"] = dice.word().into();
    }
    sampling(dice, &mut body);
    if dice.coin() {
        set(&mut body, "instructions", json!("Be brief."));
    }
    if dice.coin() {
        set(&mut body, "max_output_tokens", json!(50));
    }
    if dice.coin() {
        set(&mut body, "safety_identifier", json!("u"));
    }
    if dice.coin() {
        set(
            &mut body,
            "reasoning",
            json!({"effort": dice.one(&["none", "low", "high"]), "summary": "auto"}),
        );
    }
    let mut text = Map::new();
    if dice.coin() {
        text.insert(
            "format".into(),
            json!({"type": "json_schema", "name": "n", "schema": schema(dice)}),
        );
    }
    if dice.coin() && to == Format::Chat {
        text.insert("verbosity".into(), json!("high"));
        set(&mut body, "top_logprobs", json!(2));
    }
    if !text.is_empty() {
        set(&mut body, "text", Value::Object(text));
    }
    if dice.coin() {
        let tool = json!({"type": "function", "name": "get", "parameters": schema(dice), "strict": dice.coin()});
        set(&mut body, "tools", json!([tool]));
        openai_choice(dice, &mut body, json!({"type": "function", "name": "get"}));
    }
    if dice.roll(4) == 3 {
        set(&mut body, "prompt_cache_options", json!({"mode": "implicit", "ttl": "30m"}));
    }
    body
}

fn response_content(dice: &mut Dice) -> Value {
    if dice.coin() {
        return dice.word().into();
    }
    let parts = (0..=dice.roll(2)).map(|_| {
        let mut part = match dice.roll(4) {
            2 => json!({"type": "input_image", "image_url": "data:image/png;base64,aGk="}),
            3 => json!({"type": "input_file", "filename": "f", "file_data": "data:application/pdf;base64,aGk="}),
            _ => json!({"type": "input_text", "text": dice.word()}),
        };
        openai_mark(dice, &mut part);
        part
    });
    parts.collect()
}

fn response_answer(dice: &mut Dice, turn: usize, items: &mut Vec<Value>) {
    if dice.roll(3) == 2 {
        let summary = json!([{"type": "summary_text", "text": "Hm"}]);
        items.push(json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "ZW5j"}));
    }
    let calls = dice.roll(3);
    if calls == 0 || dice.coin() {
        let part = json!({"type": "output_text", "text": dice.word(), "annotations": []});
        items.push(json!({"type": "message", "role": "assistant", "content": [part]}));
    }
    let id = |i: usize| format!("call_{turn}_{i}");
    for i in 0..calls {
        items.push(json!({"type": "function_call", "call_id": id(i), "name": "get", "arguments": "{\"city\":\"Pune\"}"}));
    }
    for i in 0..calls {
        items
            .push(json!({"type": "function_call_output", "call_id": id(i), "output": dice.word()}));
    }
}
