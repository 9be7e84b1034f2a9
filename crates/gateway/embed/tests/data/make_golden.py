#!/usr/bin/env python3
"""Golden vectors of all-MiniLM-L6-v2, computed with numpy alone, in double precision.

    pip install numpy tokenizers
    python3 make_golden.py MODEL_FOLDER > golden.json

MODEL_FOLDER holds model.safetensors, tokenizer.json and config.json. The forward pass is written from the BERT paper
(Devlin et al., 2018) and shares no code with the crate.
"""
import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

TEXTS = [
    "What is the notice period to end my tenancy?",
    "How much notice must I give before I leave the flat?",
    "How do I cancel my subscription?",
    "Don't cancel my subscription",
    "Größe, naïveté, 東京 and an emoji 🙂",
    "a",
    "",
    "The tenant shall give the landlord not less than six months' written notice. " * 30,
]


def load(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    tensors = {}
    for name, info in header.items():
        if name != "__metadata__" and info["dtype"] == "F32":
            begin, end = info["data_offsets"]
            tensors[name] = np.frombuffer(data[begin:end], "<f4").reshape(info["shape"]).astype(np.float64)
    return tensors


folder = Path(sys.argv[1])
weights = load(folder / "model.safetensors")
config = json.loads((folder / "config.json").read_text())
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.no_padding()
tokenizer.enable_truncation(256)
erf = np.vectorize(math.erf)


def norm(x, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + config["layer_norm_eps"])
    return x * weights[name + ".weight"] + weights[name + ".bias"]


def linear(x, name):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def embed(text):
    ids = tokenizer.encode(text).ids
    count, hidden, heads = len(ids), config["hidden_size"], config["num_attention_heads"]
    e = "embeddings."
    x = weights[e + "word_embeddings.weight"][ids] + weights[e + "position_embeddings.weight"][:count]
    x = norm(x + weights[e + "token_type_embeddings.weight"][0], e + "LayerNorm")
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        q, k, v = (
            linear(x, layer + "attention.self." + part).reshape(count, heads, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(hidden // heads)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        mixed = (scores @ v).transpose(1, 0, 2).reshape(count, hidden)
        x = norm(linear(mixed, layer + "attention.output.dense") + x, layer + "attention.output.LayerNorm")
        wide = linear(x, layer + "intermediate.dense")
        wide = wide * 0.5 * (1 + erf(wide / math.sqrt(2)))
        x = norm(linear(wide, layer + "output.dense") + x, layer + "output.LayerNorm")
    mean = x.mean(0)
    return ids, mean / np.linalg.norm(mean)


rows = []
for text in TEXTS:
    ids, vector = embed(text)
    rows.append({"text": text, "tokens": len(ids), "vector": [round(float(x), 6) for x in vector]})
json.dump(rows, sys.stdout, ensure_ascii=False, separators=(",", ":"))
print()
