"""Makes the files beside it: small vocabularies in GGUF, and what the libraries `tokenizers` and `sentencepiece` make of text.

    pip install tokenizers sentencepiece protobuf gguf numpy
    python make_tokenizers.py [FOLDER_OF_MODELS]

For each way of cutting words a byte-level BPE vocabulary of some 700 tokens is trained by `tokenizers` with the regular
expressions of a well-known model's tokenizer.json (`default` and `tekken`: those of llama.cpp), and a
SentencePiece one with byte fallback by `sentencepiece`. With FOLDER_OF_MODELS, which holds the two development models'
GGUF files, their vocabularies are rebuilt in the libraries as well.

tokenizers.json has, for each vocabulary, the ids of some strings, and a digest of the ids of each thousand of 100,000
random strings. The test makes the same strings by the same rule (see `Strings`); `ranges` are the characters that it
draws from: those assigned in the Unicode version of this Python (14), so that no library's tables are too old for them.
"""

import glob
import io
import json
import pathlib
import sys
import unicodedata

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
CORPUS = HERE.parents[4] / "examples/case_file/case_file.txt"
SIZE = 700
MASK = (1 << 64) - 1

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TIKTOKEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Regular expressions that are applied one after the other, each to the parts that the one before left.
PRE_TOKENIZERS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [TIKTOKEN % r"\p{N}{1,3}"],
    "qwen2": [TIKTOKEN % r"\p{N}"],
    # llama.cpp's form: case is that of ASCII.
    "tekken": [
        r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+"
        r"|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
}
# Tokens that no merge makes: only a model that looks for whole words first finds them.
WHOLE_WORDS = ["Ġtapri", "stall", "Ġ漢字", "éé", "Ċ\u0120x", "123", "!!!!"]

GOLDEN = [
    "",
    " ",
    "  ",
    "Hello world",
    " Hello  world \n",
    "It's THEY'LL we'Ve I'M he'd 'S 'x ''s",
    "12345 6789012 3.14159, 1,000,000 ²³ Ⅷ ०१२३",
    "a1b22c333d4444e55555",
    "line one\r\nline two\r\n\r\n\n\nline three\t\tend",
    "tabs\tand\u00a0no-break\u3000wide\u2003spaces \u0085 next\u2028line",
    "if (x != y) { return a->b[0] + c**2; } // ~!@#$%^&*()_+`-={}|[]\\:\";'<>?,./",
    "$5 + 3 = 8 <= 9 | 10 ^ 2 ~ a > b < c",
    "C'était l'été à Noël, où ça?",
    "Привет, мир! Как дела?",
    "你好，世界。漢字かなカナ 한국어",
    "नमस्ते दुनिया, हिन्दी में",
    "שלום עולם مرحبا بالعالم",
    "😀👍🏽👨‍👩‍👧‍👦 🇬🇧 ✨",
    "e\u0301 a\u0308\u0323 n\u0303o",
    "…“quoted” ‘text’ – dash — em·dot",
    "tapri stall tapristall 漢字 éé 123 !!!!",
    " \n \n x\n  y\n\n   z   ",
    "\n\n\n",
    "word\n",
    "!\n!\r\n!! \n",
    "      indented\n\tcode()",
    "\u200b\u200d\ufeff\ufffd",
    "'s't're've'm'll'd",
    "ſ ſs K Å ﬁ Ǆ",
    "<b>bold</b> \u2581 under",
]


class Strings:
    """Random strings: SplitMix64 (Steele, Lea and Flood, 2014), and a few kinds of parts."""

    PIECES = ["'s", "'S", "'rE", "'ll", "'", "\r\n", "\n\n", " \n ", "\t", "...", "\u00a0", "\u3000", "1st", "A.B", "—", "\u0301"]
    SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

    def __init__(self, seed: int, ranges: list[list[int]]) -> None:
        self.state, self.ranges = seed, ranges

    def below(self, n: int) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) >> 32) * n >> 32

    def characters(self, most: int, pick) -> str:
        return "".join(pick() for _ in range(1 + self.below(most)))

    def any(self) -> str:
        first, last = self.ranges[self.below(len(self.ranges))]
        return chr(first + self.below(last - first + 1))

    def part(self) -> str:
        kind = self.below(12)
        if kind < 3:
            return self.characters(8, lambda: chr(97 + self.below(26)))
        if kind == 3:
            return " "
        if kind == 4:
            return self.characters(4, lambda: "  \n\r"[self.below(4)])
        if kind == 5:
            return self.characters(7, lambda: chr(48 + self.below(10)))
        if kind == 6:
            return self.characters(4, lambda: self.SIGNS[self.below(len(self.SIGNS))])
        if kind == 7:
            return self.PIECES[self.below(len(self.PIECES))]
        if kind == 8:
            return self.characters(3, lambda: chr(65 + self.below(26)))
        return self.characters(3, self.any)

    def next(self) -> str:
        return "".join(self.part() for _ in range(self.below(13)))


def ranges() -> list[list[int]]:
    """All characters that Python's tables have, but for NUL, surrogates, private ones and SentencePiece's space."""
    found: list[list[int]] = []
    for code in range(1, 0x110000):
        if code == 0x2581 or unicodedata.category(chr(code)) in ("Cn", "Cs", "Co"):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def digest(ids_of_strings) -> str:
    """FNV-1a over ids, 64 bits, with 2^32 - 1 after each string."""
    value = 0xCBF29CE484222325
    for ids in ids_of_strings:
        for one in [*ids, 0xFFFFFFFF]:
            value = ((value ^ one) * 0x100000001B3) & MASK
    return f"{value:016x}"


def golden(encode, strings: list[str]) -> dict:
    """`encode` takes a list of strings and gives a list of lists of ids."""
    ids = encode(strings)
    thousands = [digest(ids[at : at + 1000]) for at in range(0, len(ids), 1000)]
    # Where U+2581 stands in the text itself, llama.cpp finds no runs of spaces in it, and sentencepiece does.
    plain = [text for text in GOLDEN if "\u2581" not in text]
    return {"strings": [[text, encode([text])[0]] for text in plain], "digests": thousands}


def byte_level(name: str, ignore_merges: bool) -> Tokenizer:
    splits = [pre_tokenizers.Split(Regex(regex), "isolated") for regex in PRE_TOKENIZERS[name]]
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def encoder(tokenizer: Tokenizer):
    return lambda texts: [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]


def write(name: str, model: str, pre: str, tokens: list[str], kinds: list[int], **more) -> None:
    writer = gguf.GGUFWriter(HERE / f"{name}.gguf", "llama")
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    if "merges" in more:
        writer.add_token_merges(more["merges"])
    if "scores" in more:
        writer.add_token_scores(more["scores"])
        writer.add_add_space_prefix(True)
        writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def train(name: str):
    ignore_merges = name in ("llama-bpe", "tekken")
    tokenizer = byte_level(name, ignore_merges)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=SIZE, initial_alphabet=alphabet, show_progress=False)
    text = CORPUS.read_text(encoding="utf-8") + "\n".join(GOLDEN * 3)
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    state = json.loads(tokenizer.to_str())["model"]
    vocab, merges = state["vocab"], [tuple(pair) for pair in state["merges"]]
    for word in WHOLE_WORDS:
        vocab.setdefault(word, len(vocab))
    tokens = sorted(vocab, key=vocab.get)
    write(name, "gpt2", name, tokens, [1] * len(tokens), merges=[" ".join(pair) for pair in merges])
    tokenizer = byte_level(name, ignore_merges)
    tokenizer.model = models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges)
    return encoder(tokenizer)


def train_sentencepiece():
    """Without tokens of a user's own: around such, llama.cpp puts its space elsewhere than sentencepiece does. (Gemma has many,
    and takes no space in front.)"""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.read_text(encoding="utf-8").splitlines() + GOLDEN),
        model_writer=out,
        model_type="bpe",
        vocab_size=900,
        byte_fallback=True,
        character_coverage=0.9995,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    model = proto.ModelProto.FromString(out.getvalue())
    pieces = model.pieces
    texts, kinds = [piece.piece for piece in pieces], [piece.type for piece in pieces]
    write("sentencepiece", "llama", "default", texts, kinds, scores=[piece.score for piece in pieces])
    return sentencepiece.SentencePieceProcessor(model_proto=out.getvalue()).encode


def strings_of(reader: gguf.GGUFReader, key: str) -> list[str]:
    field = reader.fields[key]
    return [bytes(field.parts[index]).decode("utf-8") for index in field.data]


def numbers_of(reader: gguf.GGUFReader, key: str) -> list:
    field = reader.fields[key]
    return [field.parts[index][0].item() for index in field.data]


def smollm2(path: str):
    reader = gguf.GGUFReader(path)
    tokens = strings_of(reader, "tokenizer.ggml.tokens")
    merges = [tuple(rule.split(" ")) for rule in strings_of(reader, "tokenizer.ggml.merges")]
    tokenizer = byte_level("smollm", False)
    tokenizer.model = models.BPE(vocab={text: id for id, text in enumerate(tokens)}, merges=merges)
    return encoder(tokenizer)


def gemma(path: str):
    reader = gguf.GGUFReader(path)
    texts = strings_of(reader, "tokenizer.ggml.tokens")
    kinds = numbers_of(reader, "tokenizer.ggml.token_type")
    scores = numbers_of(reader, "tokenizer.ggml.scores")
    model = proto.ModelProto()
    for text, kind, score in zip(texts, kinds, scores):
        # llama.cpp's converter writes the spaces of user-defined tokens (runs of them) as they are.
        model.pieces.add(piece=text.replace(" ", "\u2581"), type=kind, score=score)
    model.trainer_spec.model_type = proto.TrainerSpec.BPE
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.vocab_size = len(texts)
    for role in ("unk", "bos", "eos", "pad"):
        setattr(model.trainer_spec, f"{role}_piece", f"<{role}>")
        setattr(model.trainer_spec, f"{role}_id", texts.index(f"<{role}>"))
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    model.normalizer_spec.escape_whitespaces = True
    return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString()).encode


def main() -> None:
    drawn = ranges()
    source = Strings(20240501, drawn)
    strings = [source.next() for _ in range(100_000)]
    encoders = {name: train(name) for name in PRE_TOKENIZERS}
    encoders["sentencepiece"] = train_sentencepiece()
    if len(sys.argv) > 1:
        for key, make, file in [("smollm2", smollm2, "SmolLM2"), ("gemma-3-270m", gemma, "gemma-3-270m")]:
            (path,) = glob.glob(f"{sys.argv[1]}/{file}*.gguf")
            encoders[key] = make(path)
    vocabularies = {}
    for name, encode in encoders.items():
        vocabularies[name] = golden(encode, strings)
        print(name, vocabularies[name]["digests"][0])
    lines = [f' "{name}": {json.dumps(value)}' for name, value in vocabularies.items()]
    text = '{"seed": 20240501, "ranges": %s,\n"vocabularies": {\n%s\n}}\n'
    (HERE / "tokenizers.json").write_text(text % (json.dumps(drawn), ",\n".join(lines)), encoding="utf-8")


main()
