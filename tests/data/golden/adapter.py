"""Makes the golden file of an adapter on SmolLM2 with llama.cpp's server.

    cargo test -p tapri-model --test it write_the_golden_adapter -- --ignored     (with TAPRI_ADAPTER_OUT=adapter.gguf)
    llama-server -m SmolLM2-135M-Instruct.Q4_1.gguf --lora adapter.gguf -np 1 -c 2048 -fa off --port 8099
    python3 adapter.py http://127.0.0.1:8099 > smollm2-135m-instruct-q4_1-adapter.json
"""

import json
import sys
import urllib.request

PROMPTS = [
    "The capital of France is",
    "A lease is a contract by which one party conveys property to another for a time. The tenant",
    "1, 2, 3, 4, 5,",
    "Once upon a time there was a small tea stall at the side of the road, and its owner",
]


def ask(path, body):
    request = urllib.request.Request(
        sys.argv[1] + path, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


runs = []
for prompt in PROMPTS:
    tokens = ask("/tokenize", {"content": prompt, "add_special": True})["tokens"]
    answer = ask(
        "/completion",
        {
            "prompt": tokens,
            "n_predict": 16,
            "temperature": 0,
            "n_probs": 5,
            "cache_prompt": False,
            "ignore_eos": True,
        },
    )
    steps = [
        {
            "id": step["id"],
            "logprob": step["logprob"],
            "top": [[top["id"], top["logprob"]] for top in step["top_logprobs"]],
        }
        for step in answer["completion_probabilities"]
    ]
    runs.append({"prompt_tokens": tokens, "steps": steps})
print(json.dumps({"model": "SmolLM2-135M-Instruct.Q4_1", "source": "llama.cpp build b11434, --lora", "greedy": runs}, separators=(",", ":")))
