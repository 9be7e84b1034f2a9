"""Tools, structured outputs and several answers through the official OpenAI SDK."""

import json
from typing import Literal

import openai
import pytest
from pydantic import BaseModel

GREEDY = {"temperature": 0, "max_tokens": 120}
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]


def tool(name, properties, **options):
    parameters = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": f"Runs {name}.", "parameters": parameters, **options}}


WEATHER = tool(
    "get_weather", {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}
)
TIME = tool("get_time", {"city": {"type": "string"}})


def ask(client, model, **options):
    options = {"messages": QUESTION, "tools": [WEATHER, TIME], **GREEDY, **options}
    return client.chat.completions.create(model=model, **options)


def check_weather(call):
    assert call.id.startswith("call_") and call.type == "function"
    assert call.function.name == "get_weather"
    arguments = json.loads(call.function.arguments)
    assert set(arguments) == {"city", "unit"} and arguments["unit"] in ("celsius", "fahrenheit")


def streamed(stream):
    """The message that a stream's deltas make, as clients put it together."""
    text, calls, reason = "", {}, None
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for part in choice.delta.tool_calls or []:
                call = calls.setdefault(part.index, {"id": part.id, "name": part.function.name, "arguments": ""})
                call["arguments"] += part.function.arguments or ""
    return text, [calls[index] for index in sorted(calls)], reason


def test_a_tool_that_must_be_called(client, model):
    choice = ask(client, model, tool_choice={"type": "function", "function": {"name": "get_weather"}}).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert not choice.message.content
    (call,) = choice.message.tool_calls
    check_weather(call)


def test_any_tool(client, model):
    answer = ask(client, model, tool_choice="required", parallel_tool_calls=False)
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name in ("get_weather", "get_time")
    assert answer.usage.completion_tokens > 5
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_stream_of_a_call_says_what_the_body_says(client, model):
    options = {"tool_choice": "required", "parallel_tool_calls": False}
    (call,) = ask(client, model, **options).choices[0].message.tool_calls
    chunks = list(ask(client, model, stream=True, stream_options={"include_usage": True}, **options))
    text, calls, reason = streamed(chunks)
    assert (text, reason) == ("", "tool_calls")
    assert [(c["name"], c["arguments"]) for c in calls] == [(call.function.name, call.function.arguments)]
    assert calls[0]["id"].startswith("call_")
    assert chunks[-1].usage.completion_tokens > 5
    pieces = [c for c in chunks if c.choices and c.choices[0].delta.tool_calls]
    assert len(pieces) > 3, "held arguments are told as they come"


def test_no_tool_and_the_same_prompt(client, model):
    answer = ask(client, model, tool_choice="none", max_tokens=24)
    assert answer.choices[0].message.content and not answer.choices[0].message.tool_calls
    auto = ask(client, model, max_tokens=24)
    # Whatever is chosen, the prompt is the same, and so is what is cached of it.
    assert auto.usage.prompt_tokens == answer.usage.prompt_tokens
    assert auto.usage.prompt_tokens_details.cached_tokens > auto.usage.prompt_tokens // 2


def test_a_conversation_with_a_call_and_its_result(client, model):
    first = ask(client, model, tool_choice="required", parallel_tool_calls=False).choices[0].message
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "31 degrees, and sunny"}
    # The SDK's own message goes back as it came.
    answer = ask(client, model, messages=[*QUESTION, first, result], max_tokens=16)
    assert answer.choices[0].finish_reason in ("stop", "length", "tool_calls")
    assert answer.usage.prompt_tokens_details.cached_tokens > 0


def test_strict_arguments_that_cannot_be_kept_to_are_refused(client, model):
    odd = tool("odd", {"a": {"type": "array", "uniqueItems": True}}, strict=True)
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, model, tools=[odd])
    assert error.value.param == "tools[0].function.parameters"
    assert "uniqueItems" in error.value.message


# Shapes


class Answer(BaseModel):
    """What is asked of the model."""

    city: str
    country: Literal["France", "Germany"]
    population: int
    is_capital: bool


def test_parse_gives_an_object(client, model):
    parsed = client.chat.completions.parse(
        model=model, messages=[{"role": "user", "content": "Describe Paris."}], response_format=Answer, **GREEDY
    )
    assert parsed.choices[0].finish_reason == "stop"
    assert isinstance(parsed.choices[0].message.parsed, Answer)


def test_any_object(client, model):
    options = {
        "messages": [{"role": "user", "content": "Write a JSON object with one name in it."}],
        "response_format": {"type": "json_object"},
        "temperature": 0,
        "max_tokens": 300,
    }
    answer = client.chat.completions.create(model=model, **options).choices[0]
    assert answer.message.content.lstrip().startswith("{")
    if answer.finish_reason == "stop":
        assert isinstance(json.loads(answer.message.content), dict)
    text, _, reason = streamed(client.chat.completions.create(model=model, stream=True, **options))
    assert (text, reason) == (answer.message.content, answer.finish_reason)


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"type": "object", "properties": {"a": {"not": {}}}}, "`not` at /properties/a"),
        ({"type": "integer", "minimum": 3, "maximum": 1}, "minimum"),
    ],
)
def test_a_schema_that_cannot_be_kept_to_is_refused(client, model, schema, word):
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(
            model=model,
            messages=QUESTION,
            response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": schema}},
        )
    assert word in error.value.message


# Several answers


def test_several_answers(client, model):
    def both(**options):
        return ask(client, model, tools=openai.NOT_GIVEN, n=2, max_tokens=16, **options)

    greedy = both(logprobs=True, top_logprobs=1)
    assert [choice.index for choice in greedy.choices] == [0, 1]
    assert greedy.choices[0].message.content == greedy.choices[1].message.content
    assert greedy.choices[0].logprobs == greedy.choices[1].logprobs
    one = ask(client, model, tools=openai.NOT_GIVEN, max_tokens=16)
    assert greedy.choices[0].message.content == one.choices[0].message.content
    assert greedy.usage.prompt_tokens == one.usage.prompt_tokens
    assert greedy.usage.completion_tokens == 2 * one.usage.completion_tokens
    seeded = both(temperature=1.5, seed=4)
    texts = [choice.message.content for choice in seeded.choices]
    assert texts[0] != texts[1]
    chunks = list(both(temperature=1.5, seed=4, stream=True))
    again = ["".join(c.choices[0].delta.content or "" for c in chunks if c.choices and c.choices[0].index == i) for i in (0, 1)]
    assert again == texts
    assert sum(1 for c in chunks if c.choices and c.choices[0].finish_reason) == 2


def test_too_many_answers_are_refused(client, model):
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, model, n=17)
    assert error.value.param == "n"


def test_penalties_and_biases_change_the_answer(client, model):
    def say(**options):
        messages = [{"role": "user", "content": "Say la la la la la la."}]
        return client.chat.completions.create(
            model=model, messages=messages, **{**GREEDY, "max_tokens": 24}, **options
        ).choices[0].message.content

    plain = say()
    assert say(frequency_penalty=2) != plain
    assert say(presence_penalty=0) == plain
    with pytest.raises(openai.BadRequestError) as error:
        say(logit_bias={"4000000": 1})
    assert error.value.param == "logit_bias"
