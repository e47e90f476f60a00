"""Masks over the 128,256 tokens of Llama 3 equal stepping each token, at random places of real texts.

Most tests have small vocabularies, so that they can try everything. What depends on size happens only here and in examples
with real models: subtrees taken whole, walks beside a neighbour's, lists of tokens that become bitmasks.
"""

from __future__ import annotations

import json
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from engine_tools import cases, describe, followed, mask
from tokenizers_data import llama3

import cdplugin as cd

SOURCES = Path(cd.__file__).parent
CPP = """#include <map>
#include <string>
#include <vector>
using namespace std;

/* Counts words. */
template <typename T> struct Counter {
    map<T, int> counts;  // by word
    explicit Counter(const vector<T>& words) { for (const auto& word : words) ++counts[word]; }
    int operator[](const T& word) const { auto it = counts.find(word); return it == counts.end() ? 0 : it->second; }
};

int main() {
    Counter<string> counter({"a", "b", "a\\n"});
    double share = counter["a"] * 1.0 / 3e0;
    return share > 0x10 ? 1 : 0;
}
"""
SQL = "WITH recent AS (SELECT id, name FROM users WHERE age >= 18) SELECT name, COUNT(*) FROM recent GROUP BY name ORDER BY 2;"
LARK = r"""
start: (WORD | NUMBER | QUOTED | MAIL) (SEPARATOR (WORD | NUMBER | QUOTED | MAIL))*
WORD: /[^\W\d_]+/
NUMBER: /-?[0-9]+(\.[0-9]{1,6})?/
QUOTED: /"[^"\n]{0,40}"/
MAIL: /[a-z0-9._-]{1,32}@([a-z0-9-]{1,20}\.)+[a-z]{2,8}/
SEPARATOR: /[,;] ?/
%ignore /[ \t]+/
%ignore /#[^\n]*\n/
"""
WORDS = 'Größe,\t12.50;"a b", some.body@mail.example.org # counted\n, слово;\t \t日本語, \t-7,\t"x"'
SCHEMA = {
    "type": "object",
    "properties": {
        "host": {"type": "string", "format": "hostname"},
        "name": {"type": "string", "minLength": 2, "maxLength": 60},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"}, "uniqueItems": True},
        "at": {"type": "string", "format": "date-time"},
        "size": {"type": "number", "minimum": -1, "maximum": 1000},
    },
}
INSTANCE = {
    "host": "www.example.com",
    "name": "Zoë Müller \U0001f600",
    "tags": ["one", "two-three", "four"],
    "at": "2024-02-29T12:30:00Z",
    "size": 12.75,
    "more": [1, {"a": None}],
}
JOBS: dict[str, tuple[Any, str]] = {
    "python": (cd.grammars.PYTHON, (SOURCES / "grammars" / "__init__.py").read_text(encoding="utf-8")),
    "cpp": (cd.grammars.CPP, CPP),
    "sql": (cd.grammars.SQL, SQL),
    "lark": (cd.Lark(LARK), WORDS),
    "json": (cd.JsonSchema(SCHEMA), json.dumps(INSTANCE, ensure_ascii=False)),
}


@lru_cache(maxsize=1)
def vocabulary() -> cd.Vocabulary:
    return cd.Vocabulary.from_tiktoken(llama3())


@pytest.mark.parametrize("name", JOBS)
def test_masks_are_what_stepping_says(name: str) -> None:
    encoding, vocab = llama3().model, vocabulary()
    spec, text = JOBS[name]
    grammar, tokens = cd.Compiler(vocab).compile(spec), encoding.encode_ordinary(text)
    rng = random.Random(name)
    # after white space a lexeme may have ended before the token: then nearly all of the trie lies below that end
    spaced = [i + 1 for i, token in enumerate(tokens) if vocab.tokens[token][-1:].isspace()] or [0]
    for case in range(cases(12, 2, quick=2)):
        matcher = grammar.matcher()
        for token in tokens[: rng.choice(spaced) if case % 2 else rng.randrange(len(tokens))]:
            if rng.random() < 0.5:
                mask(matcher)  # bases that are there already lead to others
            assert matcher.accept_token(token), matcher.explain(token)
        allowed = mask(matcher)
        expected = followed(matcher)
        assert allowed == expected, describe(vocab, vocab.decode(matcher.tokens), allowed, expected)
