"""Texts, tools and shapes: what a scripted upstream says is what the SDK reads, whichever API either of them speaks."""

import json

from pydantic import BaseModel

SAID = "A lease is a contract."
USER = [{"role": "user", "content": "What is a lease?"}]
PARIS = [{"role": "user", "content": "What is the weather in Paris?"}]
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
CALLS = {"tool_calls": [{"name": "get_weather", "arguments": '{"city": "Paris"}'}]}


def key_of(body):
    """What the upstream was asked, without the fields that Tapri and the SDKs add."""
    return [message["role"] for message in body["messages"]]


# Texts


def test_chat(client, upstream, model):
    upstream.say({"text": SAID}, {"text": SAID}, {"text": SAID})
    whole = client.chat.completions.create(model=model, messages=USER, max_tokens=50)
    assert whole.object == "chat.completion" and whole.model == model
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == (SAID, "stop")
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens > 5
    chunks = list(client.chat.completions.create(model=model, messages=USER, max_tokens=50, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == SAID
    assert len(chunks) > 4, "the words come as the upstream says them"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert all(chunk.usage is None for chunk in chunks)
    asked = {"model": model, "messages": USER, "max_tokens": 50, "stream_options": {"include_usage": True}}
    *_, last = client.chat.completions.create(stream=True, **asked)
    assert last.choices == [] and last.usage.completion_tokens == whole.usage.completion_tokens
    assert [body["model"] for body in upstream.seen()] == [model] * 3


def test_messages(anthropic, upstream, model):
    upstream.say({"text": SAID}, {"text": SAID})
    asked = {"model": model, "messages": USER, "max_tokens": 50, "system": "You are terse."}
    whole = anthropic.messages.create(**asked)
    assert whole.type == "message" and whole.model == model
    assert (whole.content[0].text, whole.stop_reason) == (SAID, "end_turn")
    with anthropic.messages.stream(**asked) as stream:
        parts, known = [], None
        for event in stream:
            if event.type == "message_start":
                known = event.message.usage.to_dict()
            elif event.type == "text":
                parts.append(event.text)
        final = stream.get_final_message()
    assert "".join(parts) == SAID == final.content[0].text and len(parts) > 3
    assert (final.stop_reason, final.usage.output_tokens) == ("end_turn", whole.usage.output_tokens)
    # OpenAI's API says what the prompt was at the end: until then it is unknown, which is absent, and then it is there.
    assert ("input_tokens" in known) == (upstream.api == "anthropic"), known
    assert total(final.usage) == total(whole.usage) > 5
    for body in upstream.seen():
        says = body["messages"][0]["content"] if upstream.api == "openai" else body["system"]
        assert "terse" in json.dumps(says)


def total(usage):
    return usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)


def test_responses(client, upstream, model):
    upstream.say({"text": SAID}, {"text": SAID})
    asked = {"model": model, "input": "What is a lease?", "max_output_tokens": 50}
    whole = client.responses.create(**asked)
    assert whole.output_text == SAID and whole.status == "completed"
    with client.responses.stream(**asked) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert final.output_text == SAID
    assert final.usage.output_tokens == whole.usage.output_tokens > 0


def test_thinking(anthropic, upstream, model):
    upstream.say({"text": SAID, "thinking": "Let me see."}, {"text": SAID, "thinking": "Let me see."})
    asked = {"model": model, "messages": USER, "max_tokens": 2000}
    whole = anthropic.messages.create(**asked)
    assert [block.type for block in whole.content] == ["thinking", "text"]
    assert (whole.content[0].thinking, whole.content[1].text) == ("Let me see.", SAID)
    with anthropic.messages.stream(**asked) as stream:
        final = stream.get_final_message()
    assert [block.to_dict() for block in final.content] == [block.to_dict() for block in whole.content]


# Tools


def test_tools_through_chat(client, upstream, model):
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}
    asked = {"model": model, "tools": [tool], "max_tokens": 100}
    upstream.say(CALLS, CALLS, {"text": "It is hot."})
    first = client.chat.completions.create(messages=PARIS, tool_choice="required", **asked).choices[0]
    assert first.finish_reason == "tool_calls"
    (call,) = first.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Paris"})
    with client.chat.completions.stream(messages=PARIS, **asked) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion().choices[0]
    assert streamed.finish_reason == "tool_calls"
    again = streamed.message.tool_calls[0].function
    assert (again.name, json.loads(again.arguments)) == ("get_weather", {"city": "Paris"})
    result = {"role": "tool", "tool_call_id": call.id, "content": "31 degrees"}
    answer = client.chat.completions.create(messages=[*PARIS, first.message, result], **asked)
    assert answer.choices[0].message.content == "It is hot."
    required, _, told = upstream.seen()
    assert "get_weather" in json.dumps(required["tools"])
    assert required["tool_choice"] == ("required" if upstream.api == "openai" else {"type": "any"})
    check_result(upstream, told, call.id)


def test_tools_through_messages(anthropic, upstream, model):
    tool = {"name": "get_weather", "input_schema": WEATHER}
    asked = {"model": model, "tools": [tool], "max_tokens": 100}
    upstream.say(CALLS, CALLS, {"text": "It is hot."})
    first = anthropic.messages.create(messages=PARIS, tool_choice={"type": "any"}, **asked)
    assert first.stop_reason == "tool_use"
    (call,) = [block for block in first.content if block.type == "tool_use"]
    assert (call.name, call.input) == ("get_weather", {"city": "Paris"})
    with anthropic.messages.stream(messages=PARIS, **asked) as stream:
        parts = [event for event in stream if event.type == "input_json"]
        final = stream.get_final_message()
    assert final.stop_reason == "tool_use" and final.content[-1].input == {"city": "Paris"}
    assert parts[-1].snapshot == {"city": "Paris"}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "31 degrees"}
    turns = [*PARIS, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    answer = anthropic.messages.create(messages=turns, **asked)
    assert answer.content[0].text == "It is hot."
    required, _, told = upstream.seen()
    assert required["tool_choice"] == ("required" if upstream.api == "openai" else {"type": "any"})
    check_result(upstream, told, call.id)


def test_tools_through_responses(client, upstream, model):
    tool = {"type": "function", "name": "get_weather", "parameters": WEATHER, "strict": False}
    asked = {"model": model, "tools": [tool]}
    upstream.say(CALLS, CALLS, {"text": "It is hot."})
    question = {"role": "user", "content": "What is the weather in Paris?"}
    first = client.responses.create(input=[question], tool_choice="required", **asked)
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    events = list(client.responses.create(input=[question], stream=True, **asked))
    said = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    assert json.loads(said) == {"city": "Paris"}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "31 degrees"}
    second = client.responses.create(input=[question, call, result], **asked)
    assert second.output_text == "It is hot."
    check_result(upstream, upstream.seen()[-1], call.call_id)


def check_result(upstream, body, call_id):
    """The tool's result reached the upstream in its own words, and belongs to its call."""
    if upstream.api == "openai":
        assert key_of(body) == ["user", "assistant", "tool"]
        said, result = body["messages"][1], body["messages"][2]
        assert said["tool_calls"][0]["id"] == result["tool_call_id"] == call_id
        assert "31 degrees" in json.dumps(result["content"])
    else:
        assert key_of(body) == ["user", "assistant", "user"]
        (call,) = [block for block in body["messages"][1]["content"] if block["type"] == "tool_use"]
        (result,) = [block for block in body["messages"][2]["content"] if block["type"] == "tool_result"]
        assert call["id"] == result["tool_use_id"] == call_id
        assert call["input"] == {"city": "Paris"}
        assert "31 degrees" in json.dumps(result["content"])


# Shapes


class City(BaseModel):
    """What is asked of the model."""

    name: str
    is_capital: bool


PARIS_IS = {"text": '{"name": "Paris", "is_capital": true}'}


def check_schema(upstream, body):
    """The schema reached the upstream in its own words."""
    if upstream.api == "openai":
        schema = body["response_format"]["json_schema"]["schema"]
    else:
        assert body["output_config"]["format"]["type"] == "json_schema"
        schema = body["output_config"]["format"]["schema"]
    assert set(schema["properties"]) == {"name", "is_capital"}


def test_a_schema_through_chat(client, upstream, model):
    upstream.say(PARIS_IS, PARIS_IS)
    asked = {"model": model, "messages": USER, "response_format": City, "max_tokens": 100}
    assert client.chat.completions.parse(**asked).choices[0].message.parsed == City(name="Paris", is_capital=True)
    with client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.parsed == City(name="Paris", is_capital=True)
    for body in upstream.seen():
        check_schema(upstream, body)


def test_a_schema_through_responses(client, upstream, model):
    upstream.say(PARIS_IS)
    parsed = client.responses.parse(model=model, input="Describe Paris.", text_format=City)
    assert parsed.output_parsed == City(name="Paris", is_capital=True)
    check_schema(upstream, upstream.seen()[0])


def test_a_schema_through_messages(anthropic, upstream, model):
    upstream.say(PARIS_IS)
    parsed = anthropic.messages.parse(model=model, messages=USER, max_tokens=100, output_format=City)
    assert parsed.parsed_output == City(name="Paris", is_capital=True)
    check_schema(upstream, upstream.seen()[0])
