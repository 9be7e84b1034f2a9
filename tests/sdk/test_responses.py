"""The Responses API through the official OpenAI SDK: stateless, streaming and not."""

import json

import openai
import pytest
from pydantic import BaseModel

GREEDY = {"temperature": 0, "max_output_tokens": 100}
TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


def test_text(client, model):
    answer = client.responses.create(model=model, input="What is the capital of France?", **GREEDY)
    assert answer.object == "response" and answer.id.startswith("resp_")
    assert answer.output_text.strip()
    usage = answer.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert usage.input_tokens_details.cached_tokens >= 0


def test_instructions_and_turns(client, model):
    turns = [
        {"role": "user", "content": "My name is Ada."},
        {"role": "assistant", "content": "Hello Ada."},
        {"role": "user", "content": [{"type": "input_text", "text": "What is my name?"}]},
    ]
    answer = client.responses.create(model=model, instructions="You are terse.", input=turns, **GREEDY)
    assert answer.output_text


def test_a_stream_says_what_the_body_says(client, model):
    options = {"model": model, "input": "Name two colours.", **GREEDY}
    whole = client.responses.create(**options)
    with client.responses.stream(**options) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] in ("response.completed", "response.incomplete")
    assert final.output_text == whole.output_text
    assert (final.usage.input_tokens, final.usage.output_tokens) == (whole.usage.input_tokens, whole.usage.output_tokens)
    raw = list(client.responses.create(stream=True, **options))
    numbers = [event.sequence_number for event in raw]
    assert numbers == list(range(len(numbers)))
    said = "".join(event.delta for event in raw if event.type == "response.output_text.delta")
    assert said == whole.output_text


def test_a_tool_and_its_result(client, model):
    question = [{"role": "user", "content": "What is the weather in Paris?"}]
    options = {"model": model, "tools": [TOOL], **GREEDY}
    first = client.responses.create(input=question, tool_choice="required", parallel_tool_calls=False, **options)
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert call.name == "get_weather" and set(json.loads(call.arguments)) == {"city"}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "31 degrees"}
    second = client.responses.create(input=[*question, *first.output, result], **options)
    assert second.output
    events = list(
        client.responses.create(
            input=question, tool_choice="required", parallel_tool_calls=False, stream=True, **options
        )
    )
    said = "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta")
    assert said == call.arguments


class City(BaseModel):
    """What is asked of the model."""

    name: str
    is_capital: bool


def test_parse_gives_an_object(client, model):
    parsed = client.responses.parse(model=model, input="Describe Paris.", text_format=City, **GREEDY)
    assert isinstance(parsed.output_parsed, City)


def test_what_needs_a_memory_is_refused(client, model):
    with pytest.raises(openai.BadRequestError) as error:
        client.responses.create(model=model, input="Go on.", previous_response_id="resp_1")
    assert error.value.param == "previous_response_id"
