"""The state of one request in its grammar, by the contract of SGLang's ``BaseGrammarObject``.

Only :meth:`CdpluginGrammar.accept_token` raises, and only ``ValueError``, which SGLang reports as the request's error. If a
mask cannot be computed (a budget is exceeded), the row allows one ordinary token, and accepting that token raises. A mask of
stop tokens instead would let the request end as if its text were complete.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import BaseGrammarObject, GrammarRow, GrammarStats

import cdplugin
from cdplugin.ahead import Ahead
from cdplugin.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace, bitmask_view
from cdplugin.bits import allow_only
from cdplugin.errors import told
from cdplugin.matcher import Matcher
from cdplugin.matcher.batch import fill_each

logger = logging.getLogger("sglang.cdplugin")


class CdpluginGrammar(BaseGrammarObject):
    """A request's grammar and the tokens accepted so far.

    ``content``: the constraint as the content of a structural tag, so that a frame can embed it; None if it has no such form.
    """

    def __init__(
        self,
        matcher: Matcher,
        key_string: str,
        content: Any = None,
        stats: GrammarStats | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        super().__init__()
        self.matcher = matcher
        self.ahead = ahead  # computes likely masks in advance
        self.key_string = key_string
        self.content = content
        self.grammar_stats = stats
        self._surplus = 0  # tokens accepted after the end
        self._fault: tuple[tuple[int, ...], str] | None = None  # the tokens after which something failed, and the message
        self._is_lost = False  # a rollback failed: the matcher's state differs from SGLang's
        self._is_drafting = False
        self._refused_drafts = 0

    # --- tokens -------------------------------------------------------------------------------------------------------------

    def accept_token(self, token: int) -> None:
        """Accept a token; after the end, any. Raises ``ValueError`` if the token is not allowed or a budget is exceeded."""
        if self.matcher.is_terminated():
            self._surplus += 1
            return
        refusal = self._follow(token)
        if refusal is None:
            self.current_token = token
        elif self._is_drafting:
            self._refused_drafts += 1
        else:
            raise ValueError(refusal)

    def _follow(self, token: int) -> str | None:
        """Advance the matcher by a token. Returns None, or why the token was refused."""
        fault = self._present_fault()
        if fault is not None:
            return fault
        try:
            if self.ahead is not None:
                self.ahead.touch()
            if self.matcher.accept_token(token):
                return None
            reason = self.matcher.explain(token)
        except Exception as error:
            if not self._is_drafting:
                self._fail("token", error)
            return f"token {token}: {told(error)}"
        return f"token {token} is not allowed after {len(self.matcher.tokens)} tokens: {reason}"

    def rollback(self, k: int) -> None:
        """Take back the last ``k`` tokens, end tokens included."""
        drafts = min(k, self._refused_drafts)
        self._refused_drafts -= drafts
        surplus = min(k - drafts, self._surplus)
        self._surplus -= surplus
        try:
            self.matcher.rollback(k - drafts - surplus)
        except Exception as error:
            self._is_lost = True
            self._fail("rollback", error)

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted. Among drafts also after a refused one, so that SGLang does not look beyond it."""
        return self._refused_drafts > 0 or self.matcher.is_terminated()

    @contextmanager
    def drafting(self) -> Iterator[None]:
        """A context in which tokens are drafts: a refused draft is only counted, and raises if SGLang accepts it later."""
        self._is_drafting = True
        try:
            yield
        finally:
            self._is_drafting = False
            self._refused_drafts = 0

    def copy(self) -> CdpluginGrammar:
        """An independent copy in the same state; cached ones are at the start of their texts."""
        stats = self.grammar_stats and dataclasses.replace(self.grammar_stats, is_cache_hit=True, tree_traversal_time=[])
        other = CdpluginGrammar(self.matcher.fork(), self.key_string, self.content, stats, self.ahead)
        other._surplus, other._fault, other._is_lost = self._surplus, self._fault, self._is_lost
        return other

    # --- masks --------------------------------------------------------------------------------------------------------------

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        """int32, ``(batch_size, ceil(vocabulary / 32))`` on the host, everything allowed; pinned if CUDA is available."""
        return allocate_token_bitmask(batch_size, self.matcher.grammar.vocab.size)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Write the allowed tokens into a row."""
        try:
            if self._present_fault() is None:
                if self.ahead is not None:
                    self.ahead.touch()
                self.matcher.fill_next_token_bitmask(vocab_mask, idx)
                if self.ahead is not None:
                    self.ahead.follow(self.matcher)
                return
        except Exception as error:
            self._fail("mask", error)
        self._refuse_next(vocab_mask, idx)

    def _refuse_next(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Write a row with one ordinary token, which :meth:`accept_token` will refuse."""
        try:
            row = bitmask_view(vocab_mask, self.matcher.grammar.vocab.size)[idx]
            allow_only(row, [self._ordinary_token()])
        except Exception:
            logger.exception("cdplugin: a mask that cannot be written; please report this")

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[GrammarRow], vocab_mask: torch.Tensor) -> None:
        """Fill the listed rows, ours on threads. Rows in which reasoning goes on are left to SGLang's wrapper."""
        listed: list[tuple[CdpluginGrammar, int]] = []
        for entry in entries:
            grammar = _active(entry.grammar)
            if grammar is None or grammar._present_fault() is not None:
                entry.grammar.fill_vocab_mask(vocab_mask, entry.row)
            else:
                listed.append((grammar, entry.row))
        ahead = next((g.ahead for g, _ in listed), None)
        try:
            if ahead is not None:
                ahead.touch()
            errors = fill_each([g.matcher for g, _ in listed], vocab_mask, [row for _, row in listed])
            for place, (grammar, row) in enumerate(listed):
                if place in errors:
                    grammar._fail("mask", errors[place])
                    grammar._refuse_next(vocab_mask, row)
                elif ahead is not None:
                    ahead.follow(grammar.matcher)
        except Exception:  # the batch call itself failed: fill row by row, so that each reports its own error
            for grammar, row in listed:
                grammar.fill_vocab_mask(vocab_mask, row)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Set the logits of masked tokens to minus infinity: Triton on CUDA, Numba on the CPU."""
        apply_token_bitmask_inplace(logits, vocab_mask)

    # --- jump-forward -------------------------------------------------------------------------------------------------------

    def try_jump_forward(self, tokenizer: Any) -> tuple[list[int], str] | None:
        """``([], text)`` with the text that must come next, in whole characters; None if there is none."""
        try:
            forced = [] if self._present_fault() is not None else self.matcher.forced_tokens(canonical=True)
        except Exception as error:
            logger.warning("cdplugin: no jump forward: %s", told(error))
            return None
        vocab = self.matcher.grammar.vocab
        special = next((place for place, token in enumerate(forced) if not vocab.tokens[token]), len(forced))
        text = _whole_characters(vocab.decode(forced[:special]))
        return ([], text) if text else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        return helper[1], -1

    def jump_and_retokenize(self, old_output_ids: Sequence[int], new_output_ids: Sequence[int], next_state: int) -> None:
        """Continue from other tokens of the same text. If one is not allowed, stays where it was and raises ``ValueError``."""
        old, new = list(old_output_ids), list(new_output_ids)
        shared = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
        back = len(old) - shared
        known = self.matcher.tokens
        if back > len(known) or list(known[len(known) - back :]) != old[shared:]:
            raise ValueError(f"jump forward: expected the grammar's own last {back} tokens, found others")
        self.matcher.rollback(back)
        count = 0
        try:
            count = self.matcher.accept_tokens(new[shared:])
            if count == len(new) - shared:
                return
            refusal = f"token {new[shared + count]} at position {shared + count} is not allowed after retokenization"
        except Exception as error:
            refusal = told(error)
        self.matcher.rollback(len(self.matcher.tokens) - len(known) + back)
        self.matcher.accept_tokens(old[shared:])
        raise ValueError(f"jump forward: {refusal}")

    # --- inside -------------------------------------------------------------------------------------------------------------

    def _ordinary_token(self) -> int:
        """A token that is not an end token."""
        vocab = self.matcher.grammar.vocab
        ends = {*vocab.eos_token_ids, *self.matcher.stop_token_ids}
        return next(token for token, text in enumerate(vocab.tokens) if text and token not in ends)

    def _present_fault(self) -> str | None:
        """The message of what failed at this very place before, or None."""
        if self._is_lost:
            return "the grammar's state was lost in a rollback"
        if self._fault is not None and self._fault[0] == self.matcher.tokens:
            return self._fault[1]
        return None

    def _fail(self, what: str, error: Exception) -> None:
        self._fault = (self.matcher.tokens, told(error))
        is_ours = isinstance(error, cdplugin.CdpluginError)
        level = logging.WARNING if is_ours else logging.ERROR
        logger.log(level, "cdplugin: %s after %d tokens: %s", what, len(self._fault[0]), told(error), exc_info=not is_ours)

    def __repr__(self) -> str:
        return f"CdpluginGrammar({len(self.matcher.tokens)} tokens of {self.key_string[:80]!r})"


def _active(grammar: Any) -> CdpluginGrammar | None:
    """The grammar that decides about masks now; None where SGLang's wrapper decides."""
    if isinstance(grammar, CdpluginGrammar):
        return grammar
    inner = getattr(grammar, "grammar", None)
    if isinstance(inner, CdpluginGrammar) and not grammar.reasoning_in_grammar and grammar._is_generation():
        return inner
    return None


def guard_drafts(original: Any, *arguments: Any, **named: Any) -> Any:
    """An AROUND hook for SGLang's ``traverse_tree``, in which tokens are drafts."""
    given = [*arguments, *named.values()]
    found = next((value for value in given if isinstance(value, BaseGrammarObject)), None)
    inner = found if isinstance(found, CdpluginGrammar) else getattr(found, "grammar", None)
    if not isinstance(inner, CdpluginGrammar):
        return original(*arguments, **named)
    with inner.drafting():
        return original(*arguments, **named)


def _whole_characters(text: bytes) -> str:
    """The longest prefix of ``text`` that is valid UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        return text[: error.start].decode()
