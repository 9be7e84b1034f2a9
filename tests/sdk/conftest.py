"""What the tests share: clients of the server under test, and prompts that no other test has used."""

import os
import uuid

import pytest
from anthropic import Anthropic
from openai import OpenAI


@pytest.fixture(scope="session")
def url() -> str:
    return os.environ["TAPRI_URL"]


@pytest.fixture(scope="session")
def client(url: str) -> OpenAI:
    # Retries would hide errors.
    return OpenAI(base_url=f"{url}/v1", api_key="not-needed", max_retries=0, timeout=120)


@pytest.fixture(scope="session")
def anthropic(url: str) -> Anthropic:
    return Anthropic(base_url=url, api_key="not-needed", max_retries=0, timeout=120)


@pytest.fixture(scope="session")
def model(client: OpenAI) -> str:
    return client.models.list().data[0].id


@pytest.fixture
def fresh_text() -> str:
    """Some 200 tokens that begin like no earlier prompt."""
    return f"Notice {uuid.uuid4()}. " + "The tenant shall keep the premises in good repair. " * 20
