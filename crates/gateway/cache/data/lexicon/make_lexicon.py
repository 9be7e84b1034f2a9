#!/usr/bin/env python3
"""Derives lexicon.txt.gz from WordNet 3.0, as Debian packages it (wordnet-base).

    apt-get download wordnet-base && dpkg -x wordnet-base_*.deb wn
    python3 make_lexicon.py wn/usr/share/wordnet > lexicon.txt.gz

What is kept: single words (and two-word verbs with a particle) with their senses in WordNet's order and how usual each
is (by WordNet's counts in tagged text, of all uses of the word, in percent), opposites, the kind that a noun or verb is a kind of, words that belong to one another by derivation, and irregular forms. Left out:
glosses, longer expressions, other relations.

Lines, in this order, fields separated by tabs:
    w WORD POS SYNSET:SHARE...  senses, the most usual first; POS is n, v, a or r; synsets are numbers
    o WORD POS WORD POS         opposites, each pair once
    d WORD POS WORD POS         derived from one another, each pair once
    h SYNSET SYNSET...          what it is a kind of (nouns, verbs), or near to (adjectives)
    x POS FORM BASE             irregular forms
"""
import gzip
import re
import sys
from pathlib import Path

root = Path(sys.argv[1])
NAMES = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
PARTICLES = set("up down in out on off over away back through along around about apart together by for into to with".split())
word_shape = re.compile(r"^[a-z][a-z'.-]*$")


def wanted(word, pos):
    if word_shape.match(word):
        return True
    parts = word.split("_")
    return pos == "v" and len(parts) == 2 and parts[1] in PARTICLES and word_shape.match(parts[0]) is not None


def offset(pos, text):
    return ("a" if pos == "s" else pos) + text


synsets, pointers = {}, {}
for name in NAMES:
    for line in open(root / f"data.{name}", encoding="latin-1"):
        if line.startswith(" ") or not line[0].isdigit():
            continue
        fields = line.split(" | ")[0].split()
        pos = fields[2]
        key = offset(pos, fields[0])
        count = int(fields[3], 16)
        words = [re.sub(r"\(.*\)$", "", fields[4 + 2 * i]).lower() for i in range(count)]
        at = 4 + 2 * count
        links = []
        for i in range(int(fields[at])):
            symbol, target, target_pos, numbers = fields[at + 1 + 4 * i : at + 5 + 4 * i]
            links.append((symbol, offset(target_pos, target), int(numbers[:2], 16), int(numbers[2:], 16)))
        synsets[key] = words
        pointers[key] = links

senses = {}
for name, pos in NAMES.items():
    for line in open(root / f"index.{name}", encoding="latin-1"):
        if line.startswith(" "):
            continue
        fields = line.split()
        count, symbols = int(fields[2]), int(fields[3])
        offsets = fields[6 + symbols : 6 + symbols + count]
        if wanted(fields[0], pos):
            senses[fields[0], pos] = [offset(pos, o) for o in offsets]

used = sorted({s for all_senses in senses.values() for s in all_senses})
number = {key: i for i, key in enumerate(used)}
opposites, derived, kinds = set(), set(), {}
for key in used:
    pos = key[0]
    for symbol, target, source_word, target_word in pointers[key]:
        if target not in number:
            continue
        if symbol in ("!", "+", "\\", "&") and source_word:
            a = (synsets[key][source_word - 1], pos)
            b = (synsets[target][target_word - 1], target[0])
            if a in senses and b in senses and a != b:
                (opposites if symbol == "!" else derived).add(tuple(sorted([a, b])))
        elif symbol in ("@", "@i") and pos in "nv" or symbol == "&":
            kinds.setdefault(number[key], []).append(number[target])

counts = {}
for line in open(root / "cntlist.rev"):
    key, sense, count = line.split()
    word, rest = key.split("%")
    counts[word, " nvara"[int(rest[0])], int(sense)] = int(count)


def uses(word, pos, rank):
    # A sense that was never seen in tagged text counts a little, less the later it is listed.
    return counts.get((word, pos, rank + 1), 0) + 0.5 / (rank + 1)


out = []
for (word, pos), found in sorted(senses.items()):
    all_uses = sum(uses(word, p, i) for p in "nvar" for i in range(len(senses.get((word, p), []))))
    shares = [round(100 * uses(word, pos, i) / all_uses) for i in range(len(found))]
    out.append("\t".join(["w", word, pos, *(f"{number[s]}:{share}" for s, share in zip(found, shares))]))
for letter, pairs in (("o", opposites), ("d", derived)):
    for (a, pa), (b, pb) in sorted(pairs):
        out.append("\t".join([letter, a, pa, b, pb]))
for key, found in sorted(kinds.items()):
    out.append("\t".join(["h", str(key), *(str(f) for f in found)]))
for name, pos in NAMES.items():
    for line in sorted(open(root / f"{name}.exc", encoding="latin-1")):
        form, *bases = line.split()
        for base in bases:
            if word_shape.match(form) and (base, pos) in senses:
                out.append("\t".join(["x", pos, form, base]))
text = ("\n".join(out) + "\n").encode()
sys.stdout.buffer.write(gzip.compress(text, 9, mtime=0))
