"""Pydantic AI, unchanged, in front of scripted upstreams: it runs its tools and checks its answers over both APIs."""

import asyncio

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


@pytest.fixture(params=["openai", "anthropic"])
def agent_model(request, client, anthropic, model):
    options = {"max_retries": 0, "timeout": 60}
    if request.param == "openai":
        own = AsyncOpenAI(base_url=str(client.base_url), api_key=client.api_key, **options)
        return OpenAIChatModel(model, provider=OpenAIProvider(openai_client=own))
    own = AsyncAnthropic(base_url=str(anthropic.base_url), api_key=anthropic.api_key, **options)
    return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=own))


class City(BaseModel):
    """A city."""

    name: str
    is_capital: bool


def test_it_runs_a_tool(agent_model, upstream):
    asked = []

    def get_weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return "31 degrees"

    upstream.say(
        {"tool_calls": [{"name": "get_weather", "arguments": '{"city": "Paris"}'}]},
        {"text": "It is 31 degrees in Paris."},
    )
    result = Agent(agent_model, tools=[get_weather]).run_sync("What is the weather in Paris?")
    assert asked == ["Paris"]
    assert result.output == "It is 31 degrees in Paris."
    assert result.usage.requests == 2 and result.usage.output_tokens > 0


def test_an_answer_of_a_type(agent_model, upstream):
    upstream.say({"tool_calls": [{"name": "final_result", "arguments": '{"name": "Paris", "is_capital": true}'}]})
    result = Agent(agent_model, output_type=City).run_sync("Describe Paris.")
    assert result.output == City(name="Paris", is_capital=True)


def test_a_stream(agent_model, upstream):
    upstream.say({"text": "Red and blue are two colours."})

    async def run():
        async with Agent(agent_model).run_stream("Name two colours.") as result:
            return [text async for text in result.stream_text(delta=True, debounce_by=None)]

    parts = asyncio.run(run())
    assert "".join(parts) == "Red and blue are two colours." and len(parts) > 2
