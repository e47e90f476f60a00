"""``cdplugin learn``: compute mask bases that grammars of one vocabulary share, and write them to a folder."""

from __future__ import annotations

import argparse
import random

from cdplugin import allocate_token_bitmask
from cdplugin.bits import bit_members
from cdplugin.cli.main import CommandError, folder, load_spec
from cdplugin.cli.vocab import load_vocabulary
from cdplugin.compiler import Compiler
from cdplugin.errors import CdpluginError
from cdplugin.matcher import Grammar

_STEPS = 80  # tokens of a text


def learn(args: argparse.Namespace) -> bool:
    """Compile each spec, fill masks along a few of its texts, and write the mask bases with which later grammars may start.

    The texts are pseudo-random walks: tokens that a mask allows. Specs that do not compile are reported and skipped.
    """
    out = folder(args.out)  # fail before the work, not after it
    vocab = load_vocabulary(args.tokenizer, args.vocab_size, args.end)
    compiler = Compiler(vocab)
    all_well = True
    for name in args.specs:
        try:
            grammar = compiler.compile(load_spec(name, args.kind))
            for seed in range(args.texts):
                _follow(grammar, random.Random(seed))
        except CdpluginError as error:
            print(f"{name}: left out: {error}")
            all_well = False
    try:
        n_bases = compiler.save_learned(out)
    except OSError as error:
        raise CommandError(f"{out}: {error.strerror}") from None
    print(f"{n_bases} mask bases; set CDPLUGIN_LEARNED={out} where they are used")
    return all_well


def _follow(grammar: Grammar, rng: random.Random) -> None:
    """Fill masks along a random text. Half of its tokens are single bytes where possible, so that texts come to an end."""
    matcher = grammar.matcher()
    bits = allocate_token_bitmask(1, grammar.vocab.size, array="numpy")
    for _ in range(_STEPS):
        matcher.fill_next_token_bitmask(bits, 0)
        allowed = bit_members(bits, grammar.vocab.size).tolist()
        short = [token for token in allowed if len(grammar.vocab.tokens[token] or b"") == 1]
        if not allowed:  # the vocabulary has no end token, or cannot write what must come
            return
        token = rng.choice(short if short and rng.random() < 0.5 else allowed)
        if token in matcher.stop_token_ids:
            return
        matcher.accept_token(token)
