//! Written in a format and read by its decoder, an answer says what it said.

use proptest::prelude::*;
use tapri_api::decode::{Decoder, Options};
use tapri_api::{CallEvent, Finish, FinishReason, Format, Says};

use super::{body, end, events, finish, head, says, stream};
use tapri_api::Usage;

/// Thinking, then words, then calls: the order that every format can say.
fn answer() -> impl Strategy<Value = Vec<Says>> {
    let words = || prop::collection::vec("[a-zé\"\\\\\n]{1,6}", 0..4);
    let call = ("[a-z]{1,5}", prop::collection::vec("[a-z]{0,4}", 0..3));
    (words(), prop::option::of("[a-zA-Z0-9+/]{4,8}"), words(), prop::collection::vec(call, 0..3))
        .prop_map(|(thinking, signature, text, calls)| {
            let mut all: Vec<Says> = thinking.iter().cloned().map(Says::Thinking).collect();
            if let Some(signature) = signature.filter(|_| !thinking.is_empty()) {
                all.push(Says::ThinkingSignature(signature));
            }
            all.extend(text.into_iter().map(Says::Text));
            let reason =
                if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
            for (index, (name, values)) in calls.into_iter().enumerate() {
                all.push(Says::ToolCall { index, id: format!("call_{index}"), name });
                let json = serde_json::json!({ "values": values }).to_string();
                // In two pieces, as it streams.
                let (one, two) = json.split_at(json.len() / 2);
                for part in [one, two] {
                    all.push(Says::ToolArguments { index, json: part.into() });
                }
            }
            all.push(end(reason));
            all
        })
}

fn joined(all: impl IntoIterator<Item = Says>) -> Vec<Says> {
    let mut out: Vec<Says> = Vec::new();
    for says in all {
        match (out.last_mut(), says) {
            (Some(Says::Text(text)), Says::Text(more))
            | (Some(Says::Thinking(text)), Says::Thinking(more)) => text.push_str(&more),
            (
                Some(Says::ToolArguments { index, json }),
                Says::ToolArguments { index: other, json: more },
            ) if *index == other => json.push_str(&more),
            (_, says) => out.push(says),
        }
    }
    out
}

fn read(decoded: Vec<CallEvent>) -> (Vec<Says>, Option<Finish>) {
    let mut all = Vec::new();
    let mut last = None;
    for event in decoded {
        match event {
            CallEvent::Piece(piece) => all.extend(piece.deltas.into_iter().map(|it| it.says)),
            CallEvent::Finished(finish) => last = Some(finish),
            other => panic!("{other:?}"),
        }
    }
    (joined(all), last)
}

fn check(format: Format, said: &[Says]) {
    let reason = match said.last() {
        Some(Says::End { reason, .. }) => *reason,
        _ => panic!("no end"),
    };
    let usage = Usage::from_prompt(100, 64, 0, 9);
    let mut written: Vec<CallEvent> = said.iter().cloned().map(|it| says(vec![it])).collect();
    written.push(CallEvent::Finished(finish(reason, usage)));
    let mut expected = joined(said.iter().cloned());
    if format == Format::Chat {
        // OpenAI's API has no room for a signature; where it stands is a field of its own.
        expected.retain(|it| !matches!(it, Says::ThinkingSignature(_)));
    }
    let extension =
        |it: &Says| !matches!(it, Says::Other { field, .. } if field == "thinking_blocks");

    let mut head = head(format);
    head.include_usage = true;
    let mut decoder = Decoder::new(format, Options::default());
    let streamed = stream(head.clone(), &written);
    let events = events(&streamed)
        .into_iter()
        .flat_map(|(name, data)| decoder.event(name, data).unwrap())
        .collect();
    let (mut all, last) = read(events);
    all.retain(extension);
    assert_eq!(all, expected, "streamed in {format:?}: {streamed}");
    let told = last.unwrap();
    assert_eq!((told.reason, told.usage.prompt()), (reason, Some(100)));
    assert_eq!((told.usage.cached(), told.usage.answer()), (Some(64), Some(9)));

    let whole = body(head, &written);
    let (mut all, last) = read(Decoder::new(format, Options::default()).body(&whole).unwrap());
    all.retain(extension);
    assert_eq!(all, expected, "whole in {format:?}: {whole}");
    assert_eq!(last.unwrap().usage, told.usage, "streaming and not agree");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn in_chat_completions(said in answer()) {
        check(Format::Chat, &said);
    }

    #[test]
    fn in_messages(said in answer()) {
        check(Format::Messages, &said);
    }

    #[test]
    fn in_responses(said in answer()) {
        check(Format::Responses, &said);
    }
}
