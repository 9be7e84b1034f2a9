"""The official Anthropic SDK, unchanged, against a running Tapri with the smollm2 model."""

import anthropic as sdk
import pytest

# The SDK has no argument for the temperature any more; the API takes it.
GREEDY = {"extra_body": {"temperature": 0}, "max_tokens": 80}
TOOL = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
QUESTION = {"role": "user", "content": "What is the weather in Paris?"}


def total(usage):
    return usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)


def test_text(anthropic, model):
    answer = anthropic.messages.create(
        model=model, messages=[{"role": "user", "content": "What is the capital of France?"}], **GREEDY
    )
    assert answer.type == "message" and answer.role == "assistant" and answer.id.startswith("msg_")
    assert answer.content[0].text.strip()
    assert answer.stop_reason in ("end_turn", "max_tokens")
    assert answer.usage.output_tokens > 0


def test_a_stream_says_what_the_body_says(anthropic, model):
    options = {"model": model, "messages": [{"role": "user", "content": "Name two colours."}], **GREEDY}
    whole = anthropic.messages.create(**options)
    with anthropic.messages.stream(**options) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == whole.content[0].text == final.content[0].text
    assert final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert total(final.usage) == total(whole.usage)


def test_markers_are_taken_and_what_is_cached_is_told(anthropic, model, fresh_text):
    system = [{"type": "text", "text": fresh_text, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]

    def ask(text):
        message = {"role": "user", "content": [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]}
        return anthropic.messages.create(model=model, system=system, messages=[message], **{**GREEDY, "max_tokens": 4}).usage

    first, second = ask("What is a lease?"), ask("Who pays the rent?")
    assert first.cache_read_input_tokens == 0
    assert second.cache_read_input_tokens > 100
    assert second.input_tokens < first.input_tokens + (first.cache_creation_input_tokens or 0)


def test_a_message_begins_with_its_prompts_tokens(anthropic, model, fresh_text):
    options = {"model": model, "system": fresh_text, "messages": [QUESTION], **{**GREEDY, "max_tokens": 4}}
    for cached in (False, True):
        with anthropic.messages.stream(**options) as stream:
            first = next(event for event in stream if event.type == "message_start").message.usage
            final = stream.get_final_message().usage
        assert total(first) == total(final) > 100
        assert first.cache_read_input_tokens == final.cache_read_input_tokens
        assert (first.cache_read_input_tokens > 100) == cached


def test_a_tool_and_its_result(anthropic, model):
    options = {"model": model, "tools": [TOOL], **GREEDY}
    choice = {"type": "tool", "name": "get_weather"}
    first = anthropic.messages.create(messages=[QUESTION], tool_choice=choice, **options)
    assert first.stop_reason == "tool_use"
    (call,) = [block for block in first.content if block.type == "tool_use"]
    assert call.name == "get_weather" and set(call.input) == {"city"}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "31 degrees, and sunny"}
    turns = [QUESTION, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    assert anthropic.messages.create(messages=turns, **options).content
    with anthropic.messages.stream(messages=[QUESTION], tool_choice=choice, **options) as stream:
        pieces = [event for event in stream if event.type == "input_json"]
        final = stream.get_final_message()
    assert final.content[0].input == call.input and final.stop_reason == "tool_use"
    assert pieces[-1].snapshot == call.input


def test_count_tokens_counts_what_is_read(anthropic, model):
    request = {"model": model, "messages": [QUESTION], "system": "You are terse.", "tools": [TOOL]}
    counted = anthropic.messages.count_tokens(**request).input_tokens
    read = anthropic.messages.create(**request, **{**GREEDY, "max_tokens": 1}).usage
    assert counted == total(read)


def test_stop_sequences(anthropic, model):
    options = {"model": model, "messages": [{"role": "user", "content": "Count from one to nine, in digits."}], **GREEDY}
    text = anthropic.messages.create(**options).content[0].text
    word = text.split()[2]
    answer = anthropic.messages.create(stop_sequences=[word], **options)
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", word)
    assert answer.content[0].text == text[: text.index(word)]


def test_errors_have_anthropics_shape(anthropic, model):
    with pytest.raises(sdk.NotFoundError) as error:
        anthropic.messages.create(model="claude-unknown", messages=[QUESTION], max_tokens=1)
    assert error.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(sdk.BadRequestError) as error:
        anthropic.messages.create(model=model, messages=[QUESTION], max_tokens=1, extra_body={"temperature": 9})
    assert "temperature" in error.value.body["error"]["message"]
