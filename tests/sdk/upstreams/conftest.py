"""A Tapri whose upstreams are scripted: what each of them was asked, and what it is to answer."""

import json
import os
import urllib.request
import uuid

import pytest
from anthropic import Anthropic
from openai import OpenAI

# Of the name: which upstream answers, whichever API it was asked in.
APIS = ["openai", "anthropic"]
MODELS = {"openai": "gpt-4o", "anthropic": "claude-sonnet-5"}


class Upstream:
    """One upstream, and its controls."""

    def __init__(self, api: str):
        self.api = api
        self.model = MODELS[api]
        self.url = os.environ[f"TAPRI_UPSTREAM_{api.upper()}"]

    def control(self, method: str, path: str, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def say(self, *scripts: dict):
        """What the next requests are answered with, one script each."""
        self.control("PUT", "/__script", {"queue": list(scripts)})

    def seen(self) -> list[dict]:
        """The bodies that came since the test began."""
        return [request["body"] for request in self.control("GET", "/__requests")]

    def clear(self):
        self.say()
        self.control("DELETE", "/__requests")


@pytest.fixture(scope="session")
def client(url: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key=os.environ["TAPRI_KEY"], max_retries=0, timeout=60)


@pytest.fixture(scope="session")
def anthropic(url: str) -> Anthropic:
    return Anthropic(base_url=url, api_key=os.environ["TAPRI_KEY"], max_retries=0, timeout=60)


@pytest.fixture(params=APIS)
def upstream(request) -> Upstream:
    """Each of the upstreams, so that every test runs in front of its client's own API and of the other."""
    upstream = Upstream(request.param)
    upstream.clear()
    return upstream


@pytest.fixture
def model(upstream: Upstream) -> str:
    return upstream.model


@pytest.fixture
def long_text() -> str:
    """Some 3,000 tokens, enough for every provider's cache, that begin like no earlier prompt."""
    return f"Notice {uuid.uuid4()}. " + "The tenant shall keep the premises in good repair. " * 240
