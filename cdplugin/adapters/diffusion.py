"""Decoding loops under a grammar: masked diffusion language models, and left-to-right models that fill gaps.

:func:`diffuse` is the loop of LLaDA and Dream (Nie et al., "Large Language Diffusion Models", 2025; Ye et al., "Dream 7B",
2025): the canvas starts as mask tokens, and each step commits the tokens of which the model is most certain, block after block.
Here a token is committed only if the canvas can still be completed *within its tokens*, so every canvas is finished and every
text is legal. The loop first asks whether the model's own choice is legal; if it is, it takes it and computes no mask.

>>> model = AutoModel.from_pretrained("GSAI-ML/LLaDA-8B-Instruct", trust_remote_code=True)  # doctest: +SKIP
>>> out = diffuse(model, infill, prompt_ids, mask_token_id=126336, length=128)              # doctest: +SKIP

Dream predicts the token *after* each position: ``shift=True``, ``mask_token_id=151666``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from numbers import Real
from typing import Any

import numpy as np

from cdplugin.bits import bit_flags
from cdplugin.errors import integer, needs
from cdplugin.infill.parts import GAP, number_of_slots
from cdplugin.infill.session import Infill, InfillSession, surely

with needs("cdplugin[hf]"):
    import torch

ORDERS = ("confidence", "entropy", "margin", "random", "left")


@dataclass
class Canvas:
    """The result of :func:`diffuse`: the canvas's tokens, the text before the first end token, and statistics.

    ``history``: the tokens of the canvas after each step (None: still open), if it was asked for. ``refused``: how many tokens
    that the model chose were not legal; ``masks``: how many masks were computed.
    """

    tokens: list[int]
    text: str
    history: list[list[int | None]] = field(default_factory=list)
    refused: int = 0
    masks: int = 0


def diffuse(
    model: Any,
    infill: Infill,
    prompt_ids: Any = (),
    *,
    mask_token_id: int,
    length: int = 64,
    canvas: Sequence[int] | None = None,
    steps: int | None = None,
    block_length: int | None = None,
    temperature: float = 0.0,
    order: str = "confidence",
    shift: bool = False,
    seed: int = 0,
    history: bool = False,
    on_step: Callable[[InfillSession], None] | None = None,
) -> Canvas:
    """Fill a canvas under a grammar.

    Parameters
    ----------
    model : called with ``input_ids``, int64 ``(1, n)``; its result has ``logits``, ``(1, n, vocabulary)``. Where these are
        wider than the vocabulary, the rest is not used; where they are narrower, the last tokens are not chosen.
    prompt_ids : the tokens before the canvas, a row of ids or a batch of one; the grammar does not see them.
    length : number of tokens of the canvas. ``canvas`` gives the tokens themselves, with ``mask_token_id`` where one is open.
    steps : forward passes; default: one per open token. Each commits its share of the block's open tokens.
    block_length : blocks are filled one after the other, from left to right; default: one block.
    temperature : 0 takes the likeliest token; otherwise Gumbel noise of that temperature is added to the logits.
    order : which tokens are committed first: ``"confidence"`` (the token's probability), ``"entropy"`` (the position's),
        ``"margin"`` (over the second likeliest token), ``"random"`` or ``"left"``.
    shift : position i predicts token i + 1, as in Dream.
    seed : seeds the noise and the random order.
    on_step : called with the session after each step.

    Raises ``ValueError`` if nothing legal fits the canvas, a number is too small, or the logits have another shape or are not
    numbers; ``TypeError`` for a value that is not a number; :class:`cdplugin.LimitExceeded` for a canvas that is too long.
    """
    _check_infill(infill)
    for what, value in (("steps", steps), ("block_length", block_length)):
        if value is not None:
            integer(what, value, 1)
    if order not in ORDERS:
        raise ValueError(f"order: expected one of {', '.join(ORDERS)}, found {order!r}")
    ids = [mask_token_id] * number_of_slots("length", length) if canvas is None else _ids("canvas", canvas)
    session = infill.canvas(ids, mask_token_id)
    if not session.completable():
        raise ValueError(f"no legal text fits a canvas of {len(ids)} tokens with its fixed tokens")
    out = Canvas([], "")
    prompt = torch.tensor(_ids("prompt_ids", prompt_ids), dtype=torch.int64)
    sampler = _Sampler(temperature, order, torch.Generator().manual_seed(integer("seed", seed)))
    open_places = session.open_slots()
    block = block_length or max(len(ids), 1)
    blocks = [list(places) for _, places in groupby(open_places, lambda place: place // block)]
    steps_each = max(1, (steps or len(open_places)) // max(len(blocks), 1))
    for places in blocks:
        for step in range(steps_each):
            remaining = [p for p in places if session._parts[session._places[p]].is_open]
            if not remaining:
                break
            tokens = torch.tensor([mask_token_id if t is None else t for t in session.tokens()], dtype=torch.int64)
            at = torch.tensor(remaining) + len(prompt) - int(shift)
            logits = _logits(model, torch.cat([prompt, tokens]), at.clamp_min(0), infill.vocab.size)
            sampler.commit(session, remaining, logits, -(-len(remaining) // (steps_each - step)), out)
            if history:
                out.history.append(session.tokens())
            if on_step is not None:
                on_step(session)
    out.tokens = [int(t) for t in session.tokens() if t is not None]
    text = session.text()
    if text is None:
        raise ValueError("on_step: expected a canvas that stays as it was filled, found open slots after the last step")
    out.text = text
    return out


def _check_infill(infill: Any) -> None:
    if not isinstance(infill, Infill):
        raise TypeError(f"infill: expected a cdplugin.Infill, found {type(infill).__name__}")


def _ids(what: str, value: Any) -> list[int]:
    """Token ids: those of a row, or of a batch of one."""
    if getattr(value, "ndim", 1) == 2 and len(value) == 1:
        value = value[0]
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{what}: expected token ids, found {type(value).__name__}")
    return [integer(what, token) for token in value]


def _logits(model: Any, ids: torch.Tensor, places: torch.Tensor, size: int) -> torch.Tensor:
    """The model's logits at some places of its input: float32 ``(len(places), size)``, on the CPU, -inf of tokens it lacks."""
    parameter = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
    with torch.no_grad():
        logits = model(input_ids=ids[None].to("cpu" if parameter is None else parameter.device)).logits
    shape = tuple(logits.shape)
    if len(shape) != 3 or shape[0] != 1 or (shape[1] != len(ids) and int(places.min()) >= 0):
        raise ValueError(f"model: expected logits of shape (1, {len(ids)}, vocabulary), found {shape}")
    chosen = logits[0][places.to(logits.device)][:, :size].float().cpu()
    if not bool((chosen < torch.inf).all()):
        raise ValueError("model: expected logits below infinity, found inf or nan")
    return torch.nn.functional.pad(chosen, (0, size - chosen.shape[1]), value=-torch.inf)


@dataclass(frozen=True)
class _Sampler:
    """How tokens are chosen: ``temperature`` and ``order`` as in :func:`diffuse`."""

    temperature: float
    order: str
    generator: torch.Generator

    def __post_init__(self) -> None:
        if not isinstance(self.temperature, Real):
            raise TypeError(f"temperature: expected a number, found {type(self.temperature).__name__}")
        if math.isnan(self.temperature):
            raise ValueError("temperature: expected a number, found nan")

    def noisy(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits with Gumbel noise: their argmax is a sample of the softmax."""
        if self.temperature < 1e-9:  # no noise makes up for a difference of logits there, whose quotient may be infinite
            return logits
        noise = torch.rand(logits.shape, generator=self.generator).clamp_(1e-9, 1 - 1e-9)
        return logits / self.temperature - torch.log(-torch.log(noise))

    def certainty(self, logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """The priority of each row's token: the greatest is committed first."""
        if self.order == "left":
            return -torch.arange(len(logits), dtype=torch.float32)
        if self.order == "random":
            return torch.rand(len(logits), generator=self.generator)
        probabilities = logits.softmax(-1)
        if self.order == "confidence":
            return probabilities.gather(1, tokens[:, None])[:, 0]
        if self.order == "margin":
            best = probabilities.topk(min(2, probabilities.shape[1]), -1).values
            return best[:, 0] - best[:, -1]
        return (probabilities * probabilities.clamp_min(1e-12).log()).sum(-1)

    def commit(self, session: InfillSession, places: list[int], logits: torch.Tensor, count: int, out: Canvas) -> None:
        """Commit ``count`` tokens at the positions where the model is most certain, each legal given those before it.

        A refused token costs one mask at its position. The position then has another candidate and waits for its turn again.
        """
        size = session._infill.vocab.size
        noisy = self.noisy(logits.clone())
        tokens = noisy.argmax(-1)
        certainty = self.certainty(logits, tokens)
        waiting = set(range(len(places)))
        while count > 0 and waiting:
            row = max(waiting, key=lambda r: float(certainty[r]))
            refused = int(tokens[row])
            if bool(torch.isneginf(noisy[row, refused])):
                raise ValueError(
                    f"diffuse: place {places[row]}: the model has no token that is legal there, or says -inf of all"
                )
            if surely(session.set, places[row], refused):
                waiting.remove(row)
                count -= 1
                continue
            out.refused += 1
            out.masks += 1
            forbidden = ~unpack(session.mask(places[row]), size)
            forbidden[refused] = True  # with LONGEST lexemes a mask may allow tokens that the session refuses
            noisy[row, forbidden] = logits[row, forbidden] = -torch.inf
            tokens[row] = noisy[row].argmax()
            if self.order in ("confidence", "entropy", "margin"):
                certainty[row] = self.certainty(logits[row : row + 1], tokens[row : row + 1])[0]


def unpack(row: np.ndarray, size: int) -> torch.Tensor:
    """A bitmask row as a boolean tensor, ``(size,)``."""
    return torch.from_numpy(bit_flags(row, size))


def fill_in(
    model: Any,
    infill: Infill,
    pieces: Sequence[Any],
    prompt: Callable[[bytes, bytes], Sequence[int]],
    *,
    end_token_ids: Sequence[int] | None = None,
    max_new_tokens: int = 64,
    temperature: float = 0.0,
    seed: int = 0,
) -> str:
    """Fill gaps one after the other with a left-to-right model: fill-in-the-middle, or several regions.

    Parameters
    ----------
    pieces : text and :data:`cdplugin.GAP`, as for :meth:`cdplugin.Infill.new`.
    prompt : maps the text before a gap and the text after it (without later gaps) to the token ids that the model continues
        with the gap's text, such as ``<prefix>…<suffix>…<middle>`` in the model's own format.
    end_token_ids : tokens that end a gap (allowed where the gap may end); default: the vocabulary's end tokens.
    max_new_tokens : tokens per gap; whatever is open after that is completed as shortly as possible.

    Raises ``ValueError`` if the text cannot be completed, there is no such end token, or ``max_new_tokens`` is negative;
    ``TypeError`` for what is no number.
    """
    _check_infill(infill)
    if not callable(prompt):
        raise TypeError(f"prompt: expected a function (text before, text after) -> token ids, found {type(prompt).__name__}")
    most = integer("max_new_tokens", max_new_tokens)
    if most < 0:
        raise ValueError(f"max_new_tokens: expected 0 or more, found {most}")
    session = infill.new(pieces)
    if not session.completable():
        raise ValueError("the text with its gaps cannot be completed")
    size = infill.vocab.size
    ends = _ids("end_token_ids", infill.vocab.eos_token_ids if end_token_ids is None else end_token_ids)
    for token in ends:
        integer("end_token_ids", token, 0, size)
    sampler = _Sampler(temperature, "left", torch.Generator().manual_seed(integer("seed", seed)))
    for place in session.open_gaps():
        at = session._places[place]
        for _ in range(most):
            part = session._parts[at]
            before = b"".join(p.text for p in session._parts[:at])
            after = b"".join(p.text for p in session._parts[at + 1 :])
            base = part.text[: len(part.text) - sum(len(infill.vocab.tokens[t] or b"") for t in part.written)]
            ids = [*_ids("prompt", prompt(before + base, after)), *part.written]
            if not ids:
                raise ValueError("prompt: expected at least one token id, found none")
            scores = sampler.noisy(_logits(model, torch.tensor(ids), torch.tensor([-1]), size))[0]
            token = int(scores.argmax())
            if not _take(session, place, token, ends):
                allowed = unpack(session.mask(place), size)
                can_close = surely(session.close, place)
                if can_close:
                    session.undo()
                allowed[ends] = can_close
                if not bool(allowed.any()):
                    break
                token = int(scores.masked_fill(~allowed, -torch.inf).argmax())
                if not _take(session, place, token, ends):
                    break
            if token in ends:
                break
    return session.complete()


def _take(session: InfillSession, place: int, token: int, ends: Sequence[int]) -> bool:
    """Write a token at the end of a gap, or close the gap if it is an end token; False if the grammar refuses it."""
    return surely(session.close, place) if token in ends else surely(session.insert, place, token)


__all__ = ["GAP", "ORDERS", "Canvas", "diffuse", "fill_in", "unpack"]
