"""An agent framework, Pydantic AI, unchanged: tools that it runs, answers that it checks, over both APIs."""

import asyncio

import anthropic as anthropic_sdk
import openai as openai_sdk
import pytest
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

SETTINGS = {"temperature": 0.0, "max_tokens": 200}


@pytest.fixture(params=["openai", "anthropic"])
def agent_model(request, client, anthropic, model):
    if request.param == "openai":
        return OpenAIChatModel(model, provider=OpenAIProvider(openai_client=as_async(client)))
    return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=as_async(anthropic)))


def as_async(client):
    """The SDK's asynchronous client with the same settings."""
    kind = openai_sdk.AsyncOpenAI if isinstance(client, openai_sdk.OpenAI) else anthropic_sdk.AsyncAnthropic
    return kind(base_url=str(client.base_url), api_key="not-needed", max_retries=0, timeout=120)


class City(BaseModel):
    """A city."""

    name: str
    is_capital: bool


def test_text(agent_model):
    result = Agent(agent_model, model_settings=SETTINGS).run_sync("What is the capital of France?")
    assert result.output.strip()
    assert result.usage.output_tokens > 0


def test_an_answer_of_a_type(agent_model):
    # Asked for as a call of a tool that must be called, which a small model does because it can't do otherwise.
    agent = Agent(agent_model, output_type=City, model_settings=SETTINGS)
    assert isinstance(agent.run_sync("Describe Paris.").output, City)


def test_a_stream(agent_model):
    agent = Agent(agent_model, model_settings=SETTINGS)

    async def run():
        async with agent.run_stream("Name two colours.") as result:
            return [text async for text in result.stream_text(delta=True)]

    assert "".join(asyncio.run(run())).strip()
