"""Embeddings through the official OpenAI SDK."""

import math

import openai
import pytest

MODEL = "all-minilm-l6-v2"


def angle(a, b):
    return sum(x * y for x, y in zip(a, b))


def test_texts_that_mean_the_same_lie_near_each_other(client):
    assert MODEL in [model.id for model in client.models.list().data]
    texts = ["When are you open?", "What are your opening hours?", "The tenant pays the rent."]
    # The SDK asks for base64 unless it is told otherwise.
    answer = client.embeddings.create(model=MODEL, input=texts)
    vectors = [datum.embedding for datum in answer.data]
    assert [datum.index for datum in answer.data] == [0, 1, 2]
    assert all(len(vector) == 384 and math.isclose(angle(vector, vector), 1, abs_tol=1e-4) for vector in vectors)
    assert angle(vectors[0], vectors[1]) > 0.6 > 0.3 > angle(vectors[0], vectors[2])
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 10
    floats = client.embeddings.create(model=MODEL, input=texts[0], encoding_format="float").data[0].embedding
    assert floats == pytest.approx(vectors[0], abs=1e-6)
    assert client.embeddings.create(model=MODEL, input="a", dimensions=384).data[0].embedding


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"input": [1, 2, 3]}, "input"),
        ({"input": ""}, "input"),
        ({"input": "word " * 400}, "input"),
        ({"input": "a", "dimensions": 100}, "dimensions"),
    ],
)
def test_what_it_cannot_do_is_refused(client, options, field):
    with pytest.raises(openai.BadRequestError) as error:
        client.embeddings.create(model=MODEL, **options)
    assert error.value.param == field


def test_each_model_does_its_own(client, model):
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model=model, input="a")
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "a"}])
