"""An upstream's bad days, as the exceptions of the SDKs."""

import anthropic as anthropic_sdk
import openai as openai_sdk
import pytest

USER = [{"role": "user", "content": "What is a lease?"}]
UPSTREAM_ID = "x-tapri-upstream-request-id"


def chat(client, model, **options):
    return client.chat.completions.create(model=f"ill-{model}", messages=USER, max_tokens=20, **options)


def messages(anthropic, model):
    return anthropic.messages.create(model=f"ill-{model}", messages=USER, max_tokens=20)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, openai_sdk.RateLimitError), (500, openai_sdk.InternalServerError), (529, openai_sdk.InternalServerError)],
)
def test_errors_through_chat(client, upstream, model, status, kind, stream):
    upstream.say({"status": status, "error": "Too much at once", "retry_after": "7"})
    with pytest.raises(kind) as error:
        chat(client, model, stream=stream)
    error = error.value
    assert error.status_code == status
    assert "Too much at once" in error.message
    assert error.response.headers["retry-after"] == "7"
    assert error.response.headers[UPSTREAM_ID].startswith("req_fake_")
    assert error.request_id and not error.request_id.startswith("req_fake_"), "the call's own name"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "kind", "word"),
    [
        (429, anthropic_sdk.RateLimitError, "rate_limit_error"),
        (500, anthropic_sdk.InternalServerError, "api_error"),
        (529, anthropic_sdk.APIStatusError, "overloaded_error"),
    ],
)
def test_errors_through_messages(anthropic, upstream, model, status, kind, word, stream):
    upstream.say({"status": status, "error": "Too much at once", "retry_after": "7"})
    with pytest.raises(kind) as error:
        if stream:
            anthropic.messages.create(model=f"ill-{model}", messages=USER, max_tokens=20, stream=True)
        else:
            messages(anthropic, model)
    error = error.value
    assert error.status_code == status
    assert error.body["error"]["type"] == word
    assert "Too much at once" in error.body["error"]["message"]
    assert error.body["request_id"].startswith("req_fake_"), "the upstream's own name for it"
    assert error.response.headers[UPSTREAM_ID].startswith("req_fake_")
    assert error.response.headers["retry-after"] == "7"


def test_what_is_refused_is_refused_in_the_upstreams_words(client, anthropic, upstream, model):
    upstream.say({"status": 400, "error": "No such colour"}, {"status": 400, "error": "No such colour"})
    with pytest.raises(openai_sdk.BadRequestError, match="No such colour"):
        chat(client, model)
    with pytest.raises(anthropic_sdk.BadRequestError, match="No such colour"):
        messages(anthropic, model)


def test_it_is_asked_again_before_the_first_byte(client, upstream, model):
    upstream.say({"status": 503}, {"text": "At last."})
    answer = client.chat.completions.create(model=model, messages=USER, max_tokens=20)
    assert answer.choices[0].message.content == "At last."
    assert len(upstream.seen()) == 2


# In the middle of an answer: the words so far came, and then an exception, never a short answer that looks whole.
BREAKS = ["cut_after", "end_after", "error_after"]


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_stream_through_chat(client, upstream, model, how):
    upstream.say({"words": 20, how: 8})
    came = []
    with pytest.raises(openai_sdk.APIError):
        for chunk in chat(client, model, stream=True):
            came.append(chunk.choices[0].delta.content or "")
    said = "".join(came)
    assert said.startswith("word word1") and "word19" not in said


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_stream_through_messages(anthropic, upstream, model, how):
    upstream.say({"words": 20, how: 8})
    came = []
    with pytest.raises(anthropic_sdk.APIError):
        with anthropic.messages.stream(model=f"ill-{model}", messages=USER, max_tokens=20) as stream:
            for text in stream.text_stream:
                came.append(text)
    said = "".join(came)
    assert said.startswith("word word1") and "word19" not in said


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_stream_through_responses(client, upstream, model, how):
    upstream.say({"words": 20, how: 8})
    events = []
    try:
        for event in client.responses.create(model=f"ill-{model}", input="What is a lease?", stream=True):
            events.append(event)
    except openai_sdk.APIError:
        pass
    else:
        assert events[-1].type == "response.failed"
        assert events[-1].response.error.message
    assert not any(event.type == "response.completed" for event in events)


def test_a_broken_answer_is_not_stored(client, upstream, model):
    name = f"stored-{model}"
    options = {"model": name, "messages": [{"role": "user", "content": "What is a bond?"}], "max_tokens": 20}
    upstream.say({"words": 20, "cut_after": 8}, {"text": "A promise to pay."})
    with pytest.raises(openai_sdk.APIError):
        list(client.chat.completions.create(stream=True, **options))
    assert client.chat.completions.create(**options).choices[0].message.content == "A promise to pay."
    assert len(upstream.seen()) == 2
