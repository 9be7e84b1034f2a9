"""What was cached, as the SDKs tell it: by the upstream's prefix cache, and by Tapri's exact cache."""

import pytest


def ask_chat(client, model, text, question, **options):
    messages = [{"role": "system", "content": text}, {"role": "user", "content": question}]
    return client.chat.completions.create(model=model, messages=messages, max_tokens=20, **options)


def ask_messages(anthropic, model, text, question):
    # A marker, which Anthropic's cache needs.
    system = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
    message = [{"role": "user", "content": question}]
    return {"model": model, "system": system, "messages": message, "max_tokens": 20}


def test_cached_tokens_through_messages(anthropic, upstream, model, long_text):
    def whole(question):
        return anthropic.messages.create(**ask_messages(anthropic, model, long_text, question)).usage

    first, second = whole("What is a lease?"), whole("Who pays the rent?")
    assert first.cache_read_input_tokens == 0
    assert second.cache_read_input_tokens > 2000
    assert second.input_tokens < 500, "what was read from the cache is not counted twice"
    with anthropic.messages.stream(**ask_messages(anthropic, model, long_text, "Who mends the roof?")) as stream:
        third = stream.get_final_message().usage
    assert third.cache_read_input_tokens == pytest.approx(second.cache_read_input_tokens, abs=128)
    assert third.input_tokens < 500
    if upstream.api == "anthropic":
        assert first.cache_creation_input_tokens > 2000
        assert second.cache_creation_input_tokens == 0


def test_cached_tokens_through_chat(client, upstream, model, long_text):
    # Anthropic's cache needs a marker, which chat completions have no field for: the route puts it in.
    name = f"marked-{model}" if upstream.api == "anthropic" else model
    first = ask_chat(client, name, long_text, "What is a lease?").usage
    second = ask_chat(client, name, long_text, "Who pays the rent?").usage
    assert first.prompt_tokens_details.cached_tokens == 0
    assert second.prompt_tokens_details.cached_tokens > 2000
    assert second.prompt_tokens > second.prompt_tokens_details.cached_tokens, "the total includes what was cached"
    asked = {"stream": True, "stream_options": {"include_usage": True}}
    *_, last = ask_chat(client, name, long_text, "Who mends the roof?", **asked)
    cached = last.usage.prompt_tokens_details.cached_tokens
    assert cached == pytest.approx(second.prompt_tokens_details.cached_tokens, abs=128)
    assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens


def test_unknown_is_absent_and_zero_is_zero(client, anthropic, upstream, model):
    upstream.say({"usage": "no_details"}, {"usage": "no_details"})
    usage = ask_chat(client, model, "You are terse.", "Hello").usage
    assert usage.prompt_tokens > 0
    assert usage.prompt_tokens_details is None or usage.prompt_tokens_details.cached_tokens is None
    asked = {"model": model, "max_tokens": 20, "messages": [{"role": "user", "content": "Hello"}]}
    assert anthropic.messages.create(**asked).usage.cache_read_input_tokens is None
    assert anthropic.messages.create(**asked).usage.cache_read_input_tokens == 0


def test_an_exact_hit_through_chat(client, upstream, model):
    upstream.say({"text": "It is a contract."})
    raw = client.chat.completions.with_raw_response
    messages = [{"role": "user", "content": "What is a lease?"}]
    options = {"model": f"stored-{model}", "messages": messages, "max_tokens": 20}
    first, again = raw.create(**options), raw.create(**options)
    assert "tapri-exact; fwd=miss" in first.headers["cache-status"]
    assert "tapri-exact; hit" in again.headers["cache-status"]
    assert int(again.headers["age"]) >= 0
    first, again = first.parse(), again.parse()
    assert again.choices[0].message.content == first.choices[0].message.content == "It is a contract."
    assert again.id != first.id, "it is an answer to a call of its own"
    # The same call as a stream has the same answer.
    chunks = list(client.chat.completions.create(stream=True, **options))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "It is a contract."
    assert len(upstream.seen()) == 1, "the upstream was asked once"


def test_an_exact_hit_through_messages(anthropic, upstream, model):
    upstream.say({"text": "It is a deed."})
    options = {"model": f"stored-{model}", "messages": [{"role": "user", "content": "What is a deed?"}], "max_tokens": 20}
    first = anthropic.messages.with_raw_response.create(**options)
    again = anthropic.messages.with_raw_response.create(**options)
    assert "tapri-exact; fwd=miss" in first.headers["cache-status"]
    assert "tapri-exact; hit" in again.headers["cache-status"]
    first, again = first.parse(), again.parse()
    assert again.content[0].text == first.content[0].text == "It is a deed."
    assert again.id != first.id and again.id.startswith("msg_")
    with anthropic.messages.stream(**options) as stream:
        assert "".join(stream.text_stream) == "It is a deed."
    assert len(upstream.seen()) == 1
