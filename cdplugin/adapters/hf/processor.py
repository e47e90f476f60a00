"""Constrained decoding in Hugging Face ``generate()``: :class:`GrammarLogitsProcessor`.

    p = GrammarLogitsProcessor(grammar)
    model.generate(**inputs, logits_processor=[p])

Works with greedy decoding, sampling, beam search, ``num_return_sequences``, left padding, assisted generation (draft models,
prompt lookup), and a separate grammar for each prompt. With ``max_new_tokens`` outputs end legally within that budget.
With ``stopping_criteria=[p.lookahead]`` a thread computes the masks of the next step while the model's forward pass runs. For
``generate_batch`` see :meth:`GrammarLogitsProcessor.continuous_batching`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from transformers import LogitsProcessor, StoppingCriteria

from cdplugin import forking
from cdplugin.adapters.hf.budget import Closing, give_back
from cdplugin.adapters.hf.host_copy import HostCopy
from cdplugin.adapters.hf.loops import Loop, draft_position, verified_length
from cdplugin.adapters.hf.recorder import Recorder
from cdplugin.adapters.prefixes import DEAD, FREE, LIVE, PADDED, RowTracker, RowTrackers, checked_grammars
from cdplugin.ahead import Ahead, shared, usual_threads
from cdplugin.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from cdplugin.bits import bit_flags
from cdplugin.errors import CdpluginError, integer, shown
from cdplugin.matcher import Grammar, fill_next_token_bitmasks
from cdplugin.queries.trace import MOST_STEPS, Trace, trace_tokens


class TokenNotAllowedError(CdpluginError, RuntimeError):
    """Row ``row`` holds token ``token_id``, which its mask had forbidden: something after the grammar's processor chose it."""

    def __init__(self, message: str, row: int, token_id: int) -> None:
        super().__init__(message)
        self.row = row
        self.token_id = token_id


class GrammarLogitsProcessor(LogitsProcessor):
    """Masks the logits of the tokens that the grammar forbids.

    Parameters
    ----------
    grammar : a compiled :class:`cdplugin.Grammar` for all rows; or a sequence with one per prompt, None for an unconstrained
        prompt. With ``num_beams`` or ``num_return_sequences`` row r belongs to prompt ``r // (rows / prompts)``, as in
        ``generate()``.
    max_new_tokens : most tokens of an output, its stop token included. Every output is then legal and ends within them: a token
        stays allowed only if some ending is known to fit after it (``budget`` of
        :meth:`cdplugin.Matcher.fill_next_token_bitmask`). :class:`cdplugin.BudgetError` if no legal output is that short. Pass
        ``generate()`` the same number, or a larger one.
    ahead : how many idle threads compute the masks that are likely to be needed next (:mod:`cdplugin.ahead`); :attr:`lookahead`
        starts them. 0: none. None: one where it pays, that is on a GPU machine with four processors or more.
    trace : whether to record for :meth:`trace` what the model preferred at each step and what the mask removed. It costs one
        softmax over the vocabulary per row and step; off, it costs nothing.

    A processor may serve many calls of ``generate()``, also from several threads at once; a copy starts without prompts.
    It sees only token ids. It takes a call for the continuation of its thread's last one if all rows start with the same prompt
    and are at most one token longer than a prefix that it has seen; anything else is a new prompt. A new prompt that repeats
    the old one *and* the text generated from it looks like a continuation, and so does the old one with one more token that the
    grammar allows: call :meth:`reset` before it.

    After its end token a row may only repeat it (``generate()`` pads it). The logits passed in are not changed. In constrained
    rows logits beyond the vocabulary's size are masked. A step costs a few microseconds per row in addition to the masks.
    """

    # True keeps continuous batching from dropping the processor with a warning, which would leave the text unconstrained.
    supports_continuous_batching = True

    def __init__(
        self,
        grammar: Grammar | Sequence[Grammar | None],
        max_new_tokens: int | None = None,
        *,
        trace: bool = False,
        ahead: int | None = None,
    ) -> None:
        if ahead is not None and (isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < 0):
            raise ValueError(f"ahead: expected a number of threads or None, found {ahead!r}")
        self._closing = None if max_new_tokens is None else Closing(max_new_tokens)
        self._records = trace
        grammars = checked_grammars(grammar)
        self.grammars: list[Any] = grammars
        constrained = [g for g in grammars if g is not None]
        self._vocab = constrained[0].vocab if constrained else None
        self._size: int = self._vocab.size if self._vocab is not None else 0
        self._threads_ahead = ahead
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget everything but the arguments."""
        self._ahead: Ahead | None = None
        self._lookahead: Lookahead | None = None
        self._thread = forking.Threads(1, "cdplugin-lookahead")
        self._of_thread = threading.local()  # a thread that ends takes its rows along
        self._all_rows: list[weakref.ref[_Rows]] = []
        self._last = self._rows()
        forking.watch(self)

    def __copy__(self) -> GrammarLogitsProcessor:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._begin_anew()
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> GrammarLogitsProcessor:
        return self.__copy__()

    def after_fork(self) -> None:
        """In a forked child: the thread that worked on the pending step is gone, and its rows are in an unknown state."""
        for own in self._rows_of_all():
            if own.pending is not None:
                own.pending.give_up()

    @property
    def lookahead(self) -> Lookahead:
        """A ``StoppingCriteria`` that never stops: pass it as ``stopping_criteria=[p.lookahead]``.

        ``generate()`` calls it as soon as the sampled tokens are known, and it starts the next step's work on a thread. The
        processor is called after the forward pass, and then only waits for that work. No effect in beam search, which chooses
        the rows to keep later.
        """
        if self._lookahead is None:
            self._lookahead = Lookahead(self)
            threads = self._threads_ahead
            if threads is None:
                threads = usual_threads() if torch.cuda.is_available() else 0
            if threads:
                self._ahead = shared(threads)
                for grammar in {id(g): g for g in self.grammars if g is not None}.values():
                    self._ahead.follow(grammar.matcher())  # while the prompt is read
        return self._lookahead

    def reset(self) -> None:
        """Forget all prompts, of all threads: the next call starts a new one, even if it looks like a continuation."""
        for own in self._rows_of_all():
            self._drop_pending(own)
            own.forget()
            if own.recorder is not None:
                own.recorder.clear()

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Scores with the forbidden tokens at minus infinity.

        Raises :class:`TokenNotAllowedError` if a row holds a forbidden token, :class:`cdplugin.CdpluginError` if the scores
        have no column for any of the allowed tokens, or other processors forbid all of them, ``ValueError`` if the number of
        rows is not a multiple of the number of grammars, ``TypeError`` for arguments that are not tensors.
        """
        if not (isinstance(input_ids, torch.Tensor) and isinstance(scores, torch.Tensor)):
            kinds = f"{type(input_ids).__name__} and {type(scores).__name__}"
            raise TypeError(f"input_ids and scores: expected tensors of PyTorch, found {kinds}")
        if input_ids.ndim != 2 or scores.ndim != 2 or input_ids.shape[0] != scores.shape[0]:
            _refuse_shapes(input_ids, scores)
        if self._vocab is None:
            return scores
        own = self._last = self._rows()
        tracker = self._tracker(own, input_ids)
        refused = tracker.refused()
        if refused and _is_new_prompt(tracker, scores):
            tracker, refused = own.trackers.begin(_host_ids(input_ids)), []
        if tracker.loop is None or tracker.length == tracker.prompt_length:
            tracker.loop = Loop(tracker)
        tracker.loop.settle()
        tracker.loop.note(scores)
        if refused:
            forced = tracker.loop.forced_beams(refused)
            for row in refused:
                self._judge(own, tracker, row, scores, row in forced)
        else:
            tracker.deferred = None
        rows = tracker.masked()
        if not rows:
            return scores
        bitmask = self._masks(own, tracker, rows)
        if scores.shape[1] < self._size:
            _refuse_narrow(scores, rows, bitmask, self._size)
        masked, on_device = scores.clone(), bitmask
        if scores.device.type != "cpu":
            on_device = bitmask.to(scores.device, non_blocking=True)
        if scores.device.type == "cuda":  # the host may refill the pinned memory only after the copy
            own.copied = torch.cuda.Event()
            own.copied.record(torch.cuda.current_stream(scores.device))
        apply_token_bitmask_inplace(masked, on_device, None if len(rows) == tracker.rows else rows)
        live = [row for row in rows if tracker.status[row] == LIVE]
        tracker.loop.note_ends(live, masked)
        if self._closing is not None:
            give_back(masked, live, on_device)
        else:
            tracker.loop.refuse_dead(live, scores, masked)
        if own.recorder is not None:
            own.recorder.note(tracker, live, scores, masked)
        return masked

    def trace(self, row: int = 0, output_ids: Any = None, *, limit: int = MOST_STEPS) -> Trace:
        """The trace of a generated row: at each step what was allowed and why, what the model preferred, what it got.

        ``output_ids``: the row as ``generate()`` returned it, prompt included (the processor never sees the last token);
        default: the row at the processor's last call. ``limit``: at most this many steps. Raises
        :class:`cdplugin.CdpluginError` without ``trace=True``, before anything was generated, for a row without grammar, and
        for ``output_ids`` that do not start with the row's prompt; ``IndexError`` for a row that does not exist; ``TypeError``
        for anything but a row of ids.
        """
        own = self._last
        if own.recorder is None:
            raise CdpluginError("trace: expected GrammarLogitsProcessor(..., trace=True)")
        self._drop_pending(own)
        tracker = own.trackers.current
        if tracker is None:
            raise CdpluginError("trace: expected a call of generate() with this processor, found none")
        if not 0 <= integer("trace: row", row) < tracker.rows:
            raise IndexError(f"trace: row: expected 0 to {tracker.rows - 1}, found {row}")
        matcher = tracker.matchers[row]
        if matcher is None:
            raise CdpluginError(f"trace: row {row} has no grammar")
        ids = tracker.ids[row, : tracker.length] if output_ids is None else _row_of_ids(output_ids)
        if not np.array_equal(ids[: tracker.prompt_length], tracker.ids[row, : tracker.prompt_length]):
            raise CdpluginError(f"trace: output_ids: expected row {row} of the last generate(), its prompt first")
        tokens = ids[tracker.prompt_length :].tolist()
        stops = frozenset(matcher.stop_token_ids)
        end = next((i + 1 for i, token in enumerate(tokens) if token in stops), len(tokens))  # padding follows
        start = matcher.grammar.matcher(stop_token_ids=matcher.stop_token_ids)
        return trace_tokens(start, tokens[:end], limit, own.recorder.preferences(tracker, row))

    @contextmanager
    def continuous_batching(self, model: Any) -> Iterator[None]:
        """Within this context ``model.generate_batch()`` and ``model.init_continuous_batching()`` are constrained.

            with p.continuous_batching(model):
                outputs = model.generate_batch(inputs=ids, generation_config=config)

        ``generate_batch`` takes no processors (it ignores the argument), hence the context. See :meth:`attach`. A model may be
        in one such context at a time, else raises :class:`cdplugin.CdpluginError`; a manager that is kept for later calls
        (``persistent_manager=True``) is kept until the context ends.
        """
        owner = getattr(model.generate_batch, "__self__", model)  # of a wrapper (peft's) the model inside, which makes managers
        original, made = owner.init_continuous_batching, list[tuple[Any, Any]]()

        def init_continuous_batching(*arguments: Any, **options: Any) -> Any:
            manager = original(*arguments, **options)
            masks = next((masks for one, masks in made if one is manager), None)
            if masks is None:
                made.append((manager, self._attached(manager)))
            else:
                masks.begin(manager)
            return manager

        if vars(owner).setdefault("init_continuous_batching", init_continuous_batching) is not init_continuous_batching:
            raise CdpluginError("continuous batching: expected a model in no other such context; attach() knows managers apart")
        try:
            yield
        finally:
            del owner.init_continuous_batching
            kept = getattr(owner, "_cached_continuous_batching_manager", None)
            if any(kept is manager for manager, _ in made):
                owner.destroy_cached_continuous_batching_manager()

    def attach(self, manager: Any) -> None:
        """Constrain a ``ContinuousBatchingManager`` that has not been started.

        With a list of grammars, the n-th request added afterwards gets the n-th grammar, unless
        ``manager.add_request(..., grammar=i)`` names one. Raises :class:`cdplugin.CdpluginError` where the manager's interface
        does not allow masks: with asynchronous batching (a step starts before the last one's tokens are known), CUDA graphs, or
        compiled steps.
        """
        self._attached(manager)

    def _attached(self, manager: Any) -> Any:
        """The masks that :meth:`attach` inserts."""
        if self._closing is not None:
            raise CdpluginError("continuous batching: expected no max_new_tokens: its requests have budgets of their own")
        found = transformers.__version__
        if tuple(map(int, found.split(".")[:2])) < (5, 11):  # before, processors also get a row for each token of a prompt
            raise CdpluginError(f"continuous batching: expected transformers 5.11 or later, found {found}")
        from cdplugin.adapters.hf import batching

        return batching.attach(self.grammars, manager)

    # --- inside -------------------------------------------------------------------------------------------------------------

    def _rows(self) -> _Rows:
        """The rows of the calling thread."""
        own: _Rows | None = getattr(self._of_thread, "rows", None)
        if own is None:
            own = self._of_thread.rows = _Rows(RowTrackers(self.grammars), Recorder() if self._records else None)
            self._all_rows.append(weakref.ref(own, self._all_rows.remove))
        return own

    def _rows_of_all(self) -> list[_Rows]:
        """The rows of all living threads, and the rows used last."""
        return [own for ref in self._all_rows.copy() if (own := ref()) is not None]

    def _tracker(self, own: _Rows, input_ids: torch.Tensor) -> RowTracker:
        """The tracker at ``input_ids``: the pending job's, if it was started with these ids; else advanced here."""
        job = own.pending
        if job is None:
            return own.trackers.advance(_host_ids(input_ids))
        try:
            tracker = job.wait()  # if interrupted here, it stays pending
            own.pending = None
        except Exception:
            own.pending = own.filled = None
            if job.is_for(input_ids):
                raise
            own.trackers.forget()  # the error belongs to a step that was never taken
            tracker = None
        if tracker is None or not job.is_same(input_ids):
            return own.trackers.advance(_host_ids(input_ids))
        tracker.called()
        return tracker

    def _masks(self, own: _Rows, tracker: RowTracker, rows: list[int]) -> Any:
        """The bitmask with a tracker's rows filled; computes nothing if nothing has changed."""
        if own.bitmask is None or own.bitmask.shape[0] != tracker.rows:
            own.bitmask = allocate_token_bitmask(tracker.rows, self._size)
            own.filled = None
        if own.filled is None or own.filled[0] is not tracker or own.filled[1] != tracker.version:
            if own.copied is not None:
                own.copied.synchronize()
                own.copied = None
            own.filled = None
            if self._closing is None:
                fill_next_token_bitmasks([tracker.matchers[row] for row in rows], own.bitmask, rows)
            else:
                self._closing.fill(tracker, rows, own.bitmask)
            own.filled = (tracker, tracker.version)
        return own.bitmask

    def _start(self, input_ids: torch.Tensor) -> None:
        """Start the next step on a thread: advance the matchers, fill the masks."""
        own = self._rows()
        self._drop_pending(own)
        tracker = own.trackers.current
        if tracker is None or input_ids.ndim != 2 or input_ids.shape[0] != tracker.rows:
            return
        if tracker.loop is not None:
            tracker.loop.look_ahead()
        own.pending = _Job(self, own, input_ids)

    def _drop_pending(self, own: _Rows) -> None:
        """Wait for a step that nobody will ask for, and drop its error, if any."""
        if own.pending is not None:
            try:
                own.pending.wait()
            except Exception:
                own.forget()
            own.pending = None

    def _begin(self, own: _Rows, ids: np.ndarray) -> RowTracker | None:
        """The thread's work: advance the matchers, fill the masks."""
        if self._ahead is not None:
            self._ahead.touch()
        tracker = own.trackers.continued(ids)
        if tracker is not None and LIVE in tracker.status:
            rows = tracker.masked()
            self._masks(own, tracker, rows)
            if self._ahead is not None:
                for row in rows:
                    self._ahead.follow(tracker.matchers[row])
        return tracker

    def _judge(self, own: _Rows, tracker: RowTracker, row: int, scores: torch.Tensor, is_forced: bool) -> None:
        """Handle a token that the mask had forbidden. What it is shows in the call, the first of these that fits:

        - a draft behind a refused one, or a beam of probability zero: the row is about to be dropped;
        - a draft in the last position: let pass, once;
        - padding of a row that the loop has ended;
        - a mistake, which raises.
        """
        draft, verified = draft_position(scores), verified_length()
        if verified is not None:
            draft = "inside" if tracker.prompt_length + tracker.accepted[row] >= verified else ""
        if draft == "inside" or (tracker.loop.is_dead_beam(row) and not is_forced):
            tracker.status[row] = DEAD
        elif draft == "last" and (tracker.deferred is None or tracker.deferred >= tracker.length):
            tracker.deferred = tracker.length
        elif _is_padding(tracker, row):
            tracker.status[row] = PADDED
        else:
            own.trackers.forget()
            raise TokenNotAllowedError(_refusal(tracker, row), row, tracker.token_refused(row))


@dataclass(eq=False)
class _Rows:
    """The state of one thread's calls: each thread runs its own ``generate()``.

    ``pending``: the step that was started ahead. ``filled``: the tracker and version whose masks are in ``bitmask``.
    ``copied``: the CUDA event after which the bitmask has been copied to the device.
    """

    trackers: RowTrackers
    recorder: Recorder | None
    pending: _Job | None = None
    bitmask: Any = None
    filled: tuple[RowTracker, int] | None = None
    copied: Any = None

    def forget(self) -> None:
        """Start a new prompt with the next call."""
        self.trackers.forget()
        self.filled = None


class Lookahead(StoppingCriteria):
    """Never stops; passes the sampled tokens to its processor early. Get it as :attr:`GrammarLogitsProcessor.lookahead`."""

    def __init__(self, processor: GrammarLogitsProcessor) -> None:
        self._processor = processor

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.BoolTensor:
        if self._processor._vocab is not None:
            self._processor._start(input_ids)
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)  # type: ignore[return-value]


class _Job:
    """The thread's work for one tensor of ids. On CUDA the ids are copied without blocking the main thread."""

    def __init__(self, processor: GrammarLogitsProcessor, own: _Rows, input_ids: torch.Tensor) -> None:
        self._input_ids = input_ids
        self._version = _version(input_ids)
        copied = HostCopy(input_ids)

        def work() -> RowTracker | None:
            return processor._begin(own, _host_ids(copied.wait()))

        self._future: Future[RowTracker | None] = processor._thread.submit(work)

    def wait(self) -> RowTracker | None:
        """The tracker, moved to the ids; None if they do not continue its generation. Raises what the work raised."""
        return self._future.result()

    def give_up(self) -> None:
        """Make :meth:`wait` raise an error."""
        self._future = Future()
        text = "lookahead: expected the process that began this step; in a process forked meanwhile, begin with a new prompt"
        self._future.set_exception(CdpluginError(text))

    def is_same(self, input_ids: torch.Tensor) -> bool:
        """Whether the job was started with this very tensor, unchanged since: then the ids need no comparison."""
        return input_ids is self._input_ids and _version(input_ids) == self._version

    def is_for(self, input_ids: torch.Tensor) -> bool:
        """Whether the job was started with these ids."""
        return self.is_same(input_ids) or torch.equal(input_ids, self._input_ids)


def _version(tensor: torch.Tensor) -> int:
    """The tensor's count of in-place changes; -1 for inference tensors, which have none."""
    return -1 if tensor.is_inference() else tensor._version


def _host_ids(input_ids: torch.Tensor) -> np.ndarray:
    return np.asarray(input_ids.detach().cpu().numpy(), dtype=np.int64)


def _row_of_ids(output_ids: Any) -> np.ndarray:
    """The ids of one row, as ``generate()`` returns it, or a batch of that row alone."""
    if isinstance(output_ids, torch.Tensor):
        output_ids = output_ids.detach().cpu()
    try:
        ids = np.asarray(output_ids)
    except ValueError:  # lists of different lengths
        ids = np.zeros((2, 2))
    is_row = ids.ndim == 1 or (ids.ndim == 2 and len(ids) == 1)
    if not is_row or not (np.issubdtype(ids.dtype, np.integer) or ids.size == 0):
        raise TypeError(f"trace: output_ids: expected the token ids of one row, found {shown(output_ids)}")
    return ids.reshape(-1).astype(np.int64)


def _refuse_shapes(input_ids: torch.Tensor, scores: torch.Tensor) -> None:
    if input_ids.ndim == 1 and scores.ndim == 2:
        raise CdpluginError(
            "input_ids: expected shape (rows, length), found one token per row, as continuous batching passes it; "
            "use `with processor.continuous_batching(model): model.generate_batch(...)`, or processor.attach(manager)"
        )
    raise ValueError(
        "expected input_ids (rows, length) and scores (rows, vocabulary), "
        f"found shapes {tuple(input_ids.shape)} and {tuple(scores.shape)}"
    )


def _refuse_narrow(scores: torch.Tensor, rows: list[int], bitmask: torch.Tensor, size: int) -> None:
    """Raise an error for a row none of whose allowed tokens has a column in the scores."""
    width = scores.shape[1]
    for row in rows:
        if not bit_flags(bitmask[row].numpy(), width).any():
            raise CdpluginError(
                f"row {row}: scores: expected a column for each of the vocabulary's {size} tokens, found {width}, none of "
                "a token that is allowed here: does the tokenizer belong to this model?"
            )


def _is_new_prompt(tracker: RowTracker, scores: torch.Tensor) -> bool:
    """Whether ids with a refused token are in fact a new prompt that starts with the last one.

    A step of sampling or beam search is one token longer than the step before. Only a single row of drafts is cut back; there a
    refused token means a new prompt if it is the first token after the prompt, because drafts are verified from there only
    once.
    """
    is_first = tracker.length == tracker.prompt_length + 1
    return not tracker.grown and not draft_position(scores) and (tracker.rows > 1 or is_first)


def _is_padding(tracker: RowTracker, row: int) -> bool:
    """Whether a row repeats one special token while another row goes on: the loop ended it by a criterion of its own."""
    accepted, token, tokens = tracker.accepted[row], tracker.token_refused(row), tracker.matchers[row].grammar.vocab.tokens
    if not accepted or not 0 <= token < len(tokens) or tokens[token]:
        return False
    tail = tracker.ids[row, tracker.prompt_length + accepted : tracker.length]
    return bool((tail == token).all()) and (LIVE in tracker.status or FREE in tracker.status)


def _refusal(tracker: RowTracker, row: int) -> str:
    matcher, token, position = tracker.matchers[row], tracker.token_refused(row), tracker.accepted[row]
    vocab = matcher.grammar.vocab
    name = next((name for name, special in vocab.special_tokens.items() if special == token), None)
    text = vocab.tokens[token] if 0 <= token < vocab.size else None
    shown = repr(name if text is None else text.decode("utf-8", "replace")) if name or text is not None else "no text token"
    reason = f": {matcher.explain(token)}" if 0 <= token < vocab.size else ""
    return (
        f"row {row}: token {token} ({shown}) at generated position {position} was forbidden by the grammar's mask{reason}. "
        "Something behind the grammar's processor chose it (a processor after it, or forced tokens), or one before it left no "
        "token that is allowed (min_new_tokens, suppress_tokens, no_repeat_ngram_size). If this is a new prompt that repeats "
        "the text generated last, call reset() before generate()."
    )
