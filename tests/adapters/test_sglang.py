"""The backend with SGLang's own classes, on the CPU: what its scheduler calls, in the same order.

Needs the real package (``make hosts``). SGLang's server needs a GPU (``examples/sglang_serve.py``).
"""

from __future__ import annotations

import importlib.util
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vllm_tools import GBNF, LARK, LEGACY, STRUCTURAL, is_object, is_tagged, is_valid, obj, validator

import cdplugin as cd

if importlib.util.find_spec("sglang") is None:
    pytest.skip("SGLang is not installed here: make hosts", allow_module_level=True)
try:
    import torch
    from sglang.srt.constrained.base_grammar_backend import (
        BaseGrammarObject,
        GrammarRow,
        InvalidGrammarObject,
        create_grammar_backend,
    )
    from sglang.srt.constrained.grammar_manager import GrammarManager
    from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor
    from sglang.srt.runtime_context import publish
    from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.speculative import spec_utils
except ImportError as error:
    pytest.skip(f"SGLang cannot be imported here: {error}; make hosts", allow_module_level=True)

from grammar_tools import HUNGRY
from tokenizers_data import smollm2

from cdplugin.adapters.sglang import plugin
from cdplugin.adapters.sglang.backend import CdpluginBackend, ReasonedGrammar, ServerOptions
from cdplugin.adapters.sglang.grammar import CdpluginGrammar

SIZE = 49152
PERSON = obj(name={"type": "string", "pattern": "^[A-Z][a-z]{1,9}$"}, age={"type": "integer", "minimum": 0, "maximum": 120})
PHONE = r"\+[0-9]{1,3} [0-9]{6,8}"


def brackets(text: str) -> bool:
    """Whether a text is balanced brackets around one ``x``."""
    depth = len(text) // 2
    return text == "(" * depth + "x" + ")" * depth


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that SGLang takes for a model: a configuration and SmolLM2's tokenizer with ``<think>`` and ``</think>``."""
    path = tmp_path_factory.mktemp("model")
    smollm2().save_pretrained(path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        text = (path / name).read_text()
        (path / name).write_text(text.replace('"<repo_name>"', '"<think>"').replace('"<file_sep>"', '"</think>"'))
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": SIZE, "hidden_size": 64}
    config |= {"num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 64, "torch_dtype": "float32"}
    (path / "config.json").write_text(json.dumps(config))
    return path


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def create(folder: Path, tokenizer: Any, *arguments: str) -> Any:
    """Make what SGLang's scheduler makes at its start."""
    plugin.register()
    listed = ["--model-path", str(folder), "--device", "cpu", "--grammar-backend", "cdplugin", *arguments]
    server_args = prepare_server_args(listed)
    publish(server_args, role="scheduler")
    return create_grammar_backend(server_args, tokenizer, SIZE, {2}, think_end_ids=tokenizer.encode("</think>"))


@pytest.fixture(scope="module")
def backend(folder: Path, tokenizer: Any) -> Any:
    return create(folder, tokenizer)


def compiled(backend: Any, kind: str, text: str, reasoning: bool = False) -> Any:
    """A request's grammar as the scheduler gets it, from the cache the second time."""
    value, _ = backend.get_cached_or_future_value((kind, text), reasoning)
    if isinstance(value, Future):
        value = value.result(timeout=120)
        backend.set_cache((kind, text), value.copy())
    return value


def allowed(grammar: Any) -> set[int]:
    mask = grammar.allocate_vocab_mask(vocab_size=SIZE, batch_size=2, device="cpu")
    grammar.fill_vocab_mask(mask, 1)
    assert (mask[0] == -1).all()
    return set(np.flatnonzero(np.unpackbits(mask[1].numpy().view(np.uint8), bitorder="little")).tolist())


def written(backend: Any, grammar: Any, seed: int, most: int = 400) -> str:
    """A text of random legal tokens, with drafts taken back now and then. After a while it looks for its end."""
    rng = random.Random(seed)
    tokens: list[int] = []
    while len(tokens) < most:
        options = allowed(grammar)
        assert options, "a dead end"
        if rng.random() < 0.2:
            grammar.accept_token(rng.choice(sorted(options)))
            grammar.rollback(1)
            assert not grammar.is_terminated() and allowed(grammar) == options
        if 2 in options and (len(tokens) > 20 or rng.random() < 0.3):
            tokens.append(2)
        elif len(tokens) > 40:
            ending = grammar.matcher.shortest_completion()
            tokens.append(ending[0] if ending else 2)
        else:
            tokens.append(rng.choice(sorted(options)))
        grammar.accept_token(tokens[-1])
        if grammar.is_terminated():
            return backend.engine.vocab.decode(tokens).decode()
    raise AssertionError(f"no end after {most} tokens")


# --- registration -----------------------------------------------------------------------------------------------------------


def test_a_fresh_interpreter_finds_us_by_the_entry_point(folder: Path) -> None:
    code = (
        "import sys\n"
        "from sglang.srt.plugins import load_plugins\n"
        "load_plugins()\n"
        "from sglang.srt.server_args import prepare_server_args\n"
        "prepare_server_args(['--model-path', sys.argv[1], '--device', 'cpu', '--grammar-backend', 'cdplugin'])\n"
        "from sglang.srt.constrained.base_grammar_backend import GRAMMAR_BACKEND_REGISTRY as registry\n"
        "print(registry['cdplugin'].__module__, 'cdplugin.adapters.sglang.backend' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=300)
    assert done.stdout.split()[-2:] == ["cdplugin.adapters.sglang.plugin", "False"], done.stdout + done.stderr[-3000:]


def test_registering_twice_changes_nothing() -> None:
    from sglang.srt.server_args import GRAMMAR_BACKEND_CHOICES

    plugin.register()
    plugin.register()
    assert GRAMMAR_BACKEND_CHOICES.count("cdplugin") == 1


# --- what requests ask for --------------------------------------------------------------------------------------------------

GRAMMARS: list[tuple[str, str, Callable[[str], Any]]] = [
    ("json", json.dumps(PERSON), validator(PERSON)),
    ("json", '{"type": "object"}', is_object),
    ("json", "$$ANY$$", lambda text: json.loads(text) or True),
    ("regex", PHONE, re.compile(PHONE).fullmatch),
    ("ebnf", GBNF, brackets),
    ("ebnf", LARK, brackets),
    ("structural_tag", json.dumps(STRUCTURAL), is_tagged),
    ("structural_tag", json.dumps({**LEGACY, "at_least_one": True}), lambda text: "<call>" in text),
]


@pytest.mark.parametrize("number", range(len(GRAMMARS)))
def test_kinds_of_requests(backend: Any, number: int) -> None:
    kind, text, check = GRAMMARS[number]
    for seed in range(3):
        grammar = compiled(backend, kind, text)
        assert isinstance(grammar, BaseGrammarObject) and not isinstance(grammar, InvalidGrammarObject), grammar
        output = written(backend, grammar, seed)
        assert check(output), output


def test_what_is_valid_can_be_written(backend: Any, tokenizer: Any) -> None:
    """Each token of a valid text, as the tokenizer cuts it, is allowed. What the schema forbids is not."""
    grammar = compiled(backend, "json", json.dumps(PERSON))
    for token in tokenizer.encode('{"name": "Ada", "age": 36}'):
        assert token in allowed(grammar)
        grammar.accept_token(token)
    assert allowed(grammar) >= {2} and not grammar.is_terminated()
    grammar.accept_token(2)
    assert grammar.is_terminated()
    assert not is_valid(PERSON, '{"name": "ada"}')
    other = compiled(backend, "json", json.dumps(PERSON))
    for token in tokenizer.encode('{"name": "'):
        other.accept_token(token)
    with pytest.raises(ValueError, match="not allowed after .* tokens"):
        other.accept_token(tokenizer.encode("a")[0])


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("json", '{"type": "integr"}', "keyword 'type': expected one of .* at /type"),
        ("json", '{"type": ', "JSON"),
        ("json", '{"allOf": [{"type": "string"}, {"type": "null"}]}', "unsatisfiable"),
        ("regex", "(a", "unclosed group"),
        ("ebnf", "root ::= nobody", "nobody"),
        ("structural_tag", "{", "malformed structural tag"),
        ("structural_tag", "[1]", "structural tag"),
        ("structural_tag", '{"structures": 3, "triggers": ["a"]}', "structur"),
        ("structural_tag", '{"structures": {"a": 1}, "triggers": ["a"], "at_least_one": true}', "structural tag|begin|tag"),
        ("structural_tag", '{"format": {"type": "tag", "begin": 3}}', "begin"),
    ],
)
def test_a_fault_is_an_invalid_grammar_that_says_what(backend: Any, kind: str, text: str, message: str) -> None:
    for _ in range(2):  # remembered as well
        value = compiled(backend, kind, text)
        assert isinstance(value, InvalidGrammarObject)
        assert re.search(message, value.error_message), value.error_message


def test_absent_schemas_admit_anything(backend: Any) -> None:
    open_tag = {"format": {"type": "tag", "begin": "<c>", "content": {"type": "json_schema"}, "end": "</c>"}}
    text = written(backend, compiled(backend, "structural_tag", json.dumps(open_tag)), 1)
    json.loads(text.removeprefix("<c>").removesuffix("</c>"))
    legacy = {"structures": [{"begin": "<c>", "schema": None, "end": "</c>"}], "triggers": ["<c>"], "at_least_one": True}
    assert "<c>" in written(backend, compiled(backend, "structural_tag", json.dumps(legacy)), 2)


# --- a request's way through SGLang's own scheduler code --------------------------------------------------------------------


class Request:
    """The part of a ``Req`` that SGLang's code reads and writes."""

    def __init__(self, rid: str, **constraint: Any) -> None:
        fields = {"json_schema": None, "regex": None, "ebnf": None, "structural_tag": None, "ebnf_full_assistant": False}
        self.sampling_params = SimpleNamespace(**{**fields, "custom_params": None, **constraint})
        self.rid, self.origin_input_ids, self.require_reasoning = rid, [1], False
        self.grammar: Any = None
        self.grammar_key: Any = None
        self.grammar_wait_ct = 0
        self.aborted: str | None = None
        self.to_finish: Any = None

    def finished(self) -> bool:
        return self.aborted is not None

    def set_finish_with_abort(self, message: str) -> None:
        self.aborted = message


@pytest.fixture
def manager(backend: Any) -> Any:
    """SGLang's manager of grammars, of a server with one rank."""
    made = object.__new__(GrammarManager)
    made.scheduler = SimpleNamespace(model_config=SimpleNamespace())
    made.server_args, made.grammar_queue, made.grammar_backend = None, [], backend
    made._enable_strict_thinking, made.grammar_sync_size, made.pp_rank, made.pp_size, made.pp_group = False, 1, 0, 1, None
    made.SGLANG_GRAMMAR_POLL_INTERVAL, made.SGLANG_GRAMMAR_MAX_POLL_ITERATIONS = 0.05, 1000
    return made


def ready(manager: Any, requests: list[Request]) -> None:
    for request in requests:
        manager.process_req_with_grammar(request)
    deadline = time.monotonic() + 60
    while manager.has_waiting_grammars():
        manager.get_ready_grammar_requests()
        assert time.monotonic() < deadline


def test_through_the_grammar_manager(manager: Any) -> None:
    good = [Request("a", json_schema=json.dumps(PERSON)), Request("b", regex=PHONE), Request("c", ebnf=GBNF)]
    bad = [Request("x", json_schema='{"type": "integr"}'), Request("y", regex="a\x00b")]
    ready(manager, [*good, *bad])
    assert all(request.aborted is None and isinstance(request.grammar, CdpluginGrammar) for request in good)
    assert "expected one of null" in (bad[0].aborted or "") and "NUL" in (bad[1].aborted or "")
    again = Request("z", json_schema=json.dumps(PERSON))
    assert manager.process_req_with_grammar(again) is False, "from the cache, at once"
    assert again.grammar.matcher.tokens == () and again.grammar.grammar_stats.is_cache_hit
    refused = Request("w", json_schema='{"type": "integr"}')
    manager.process_req_with_grammar(refused)
    assert "expected one of null" in (refused.aborted or "")


def sampling(grammars: list[Any]) -> Any:
    """SGLang's batch of sampling parameters, with its mask made."""
    info = object.__new__(SamplingBatchInfo)
    info.grammars, info.temperatures, info.vocab_size, info.device = grammars, torch.ones(len(grammars), 1), SIZE, "cpu"
    info.update_regex_vocab_mask()
    return info


def taken(request: Request, tokens: Any) -> list[int]:
    """SGLang's own way of accepting what was sampled."""
    return SchedulerBatchResultProcessor._accept_grammar_tokens(SimpleNamespace(), request, tokens)  # type: ignore[arg-type]


def test_a_batch_as_the_scheduler_steps_it(manager: Any) -> None:
    """Four constrained rows and a free one are sampled at random until each has ended. Then each text is checked."""
    asked: list[tuple[dict[str, Any], Callable[[str], Any]]] = [
        ({"json_schema": json.dumps(PERSON)}, validator(PERSON)),
        ({"regex": PHONE}, re.compile(PHONE).fullmatch),
        ({"ebnf": GBNF}, brackets),
        ({"structural_tag": json.dumps(STRUCTURAL)}, is_tagged),
    ]
    requests = [Request(str(i), **constraint) for i, (constraint, _) in enumerate(asked)]
    ready(manager, requests)
    texts: list[list[int]] = [[] for _ in requests]
    generator = torch.Generator().manual_seed(7)
    for _ in range(300):
        grammars = [*(request.grammar for request in requests), None]
        info = sampling(grammars)
        logits = torch.randn(len(grammars), SIZE, generator=generator)
        logits[:, 2] += 12
        free = logits[-1].clone()
        info.grammar_mask.apply(logits)
        assert torch.equal(logits[-1], free)
        for row, request in enumerate(requests):
            if not request.grammar.is_terminated():
                token = int(logits[row].argmax())
                assert taken(request, token) == [token] and request.to_finish is None
                texts[row].append(token)
                request.grammar.finished = request.grammar.is_terminated()
        if all(request.grammar.is_terminated() for request in requests):
            break
    vocab = manager.grammar_backend.engine.vocab
    for tokens, (_, check) in zip(texts, asked, strict=True):
        assert tokens[-1] == 2 and check(vocab.decode(tokens).decode()), vocab.decode(tokens)


def test_batched_masks_are_those_of_one_by_one(backend: Any) -> None:
    grammars = [compiled(backend, kind, text) for kind, text, _ in GRAMMARS]
    one = grammars[0].allocate_vocab_mask(SIZE, len(grammars) + 1, "cpu")
    many = one.clone()
    for row, grammar in enumerate(grammars):
        grammar.fill_vocab_mask(one, row)
    CdpluginGrammar.fill_vocab_mask_batched([GrammarRow(row, g) for row, g in enumerate(grammars)], many)
    assert torch.equal(one, many) and (many[-1] == -1).all() and (many[:-1] != -1).any(dim=1).all()
    CdpluginGrammar.reset_vocab_mask(many)
    assert (many == -1).all()


# --- rollback, copies, what is forbidden ------------------------------------------------------------------------------------


def test_rollback_takes_back_tokens_and_the_end(backend: Any, tokenizer: Any) -> None:
    grammar = compiled(backend, "regex", "(yes|no)!?")
    tokens = [*tokenizer.encode("yes!"), 2]
    masks = []
    for token in tokens:
        masks.append(allowed(grammar))
        grammar.accept_token(token)
    grammar.accept_token(99)  # after the end anything goes
    assert grammar.is_terminated()
    grammar.rollback(1)
    assert grammar.is_terminated()
    for mask in reversed(masks):
        grammar.rollback(1)
        assert allowed(grammar) == mask and not grammar.is_terminated()


def test_copies_are_independent(backend: Any, tokenizer: Any) -> None:
    grammar = compiled(backend, "regex", "(yes|no)!?")
    before = allowed(grammar)
    other = grammar.copy()
    other.accept_token(tokenizer.encode("yes")[0])
    assert allowed(grammar) == before != allowed(other) and other.copy().matcher.tokens == other.matcher.tokens


def test_a_forbidden_token_aborts_its_request_alone(manager: Any, tokenizer: Any) -> None:
    requests = [Request("a", regex="(yes|no)!?"), Request("b", regex="(yes|no)!?")]
    ready(manager, requests)
    wrong, right = tokenizer.encode("x")[0], tokenizer.encode("yes")[0]
    assert taken(requests[0], wrong) == [] and "not allowed" in requests[0].to_finish.message
    assert taken(requests[1], right) == [right] and requests[1].to_finish is None


# --- budgets ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tokenizer: Any) -> Any:
    """A backend with a small budget."""
    return CdpluginBackend(tokenizer, SIZE, {2}, ServerOptions(limits={"max_expr_width": 60}))


def hungry(small: Any, tokenizer: Any) -> tuple[Request, list[int]]:
    """A request just before the token that crosses a budget, and its tokens so far."""
    [a] = tokenizer.encode("a")
    request = Request("hungry", regex=HUNGRY)
    request.grammar = compiled(small, "regex", HUNGRY)
    tokens: list[int] = []
    while True:
        probe = request.grammar.copy()
        try:
            probe.fill_vocab_mask(probe.allocate_vocab_mask(SIZE, 1, "cpu"), 0)
            probe.accept_token(a)
        except ValueError:
            return request, tokens
        request.grammar.accept_token(a)
        tokens.append(a)
        assert len(tokens) < 200


def test_a_crossed_budget_ends_one_request_with_an_error(small: Any, tokenizer: Any) -> None:
    """Never with a stop token: the answer would look complete."""
    request, tokens = hungry(small, tokenizer)
    assert 20 < len(tokens) < 200
    neighbour = compiled(small, "regex", PHONE)
    expected = allowed(neighbour)
    info = sampling([request.grammar, neighbour])
    masks = np.unpackbits(info.grammar_mask.vocab_mask.numpy().view(np.uint8), axis=1, bitorder="little")
    assert set(np.flatnonzero(masks[1]).tolist()) == expected
    options = np.flatnonzero(masks[0]).tolist()
    assert len(options) == 1 and options != [2] and small.engine.vocab.tokens[options[0]]
    assert taken(request, options[0]) == [] and "max_expr_width" in request.to_finish.message
    assert not request.grammar.is_terminated()
    request.grammar.rollback(30)
    assert len(allowed(request.grammar)) > 1


def test_whatever_goes_wrong_only_accept_raises(backend: Any, monkeypatch: pytest.MonkeyPatch, tokenizer: Any) -> None:
    grammar = compiled(backend, "regex", PHONE)
    others = [compiled(backend, "ebnf", GBNF)]

    def broken(*_: Any, **__: Any) -> None:
        raise MemoryError("no room")

    grammar.accept_token(tokenizer.encode("+")[0])
    with monkeypatch.context() as patch:
        for name in ("fill_next_token_bitmask", "accept_token", "rollback", "forced_tokens"):
            patch.setattr(cd.Matcher, name, broken)
        patch.setattr(cd, "fill_next_token_bitmasks", broken)
        mask = grammar.allocate_vocab_mask(SIZE, 2, "cpu")
        grammar.fill_vocab_mask_batched([GrammarRow(0, grammar), GrammarRow(1, others[0])], mask)
        assert grammar.try_jump_forward(tokenizer) is None
        with pytest.raises(ValueError, match="no room"):
            grammar.accept_token(5)
        grammar.rollback(1)
    assert len(allowed(grammar)) == 1
    with pytest.raises(ValueError, match="lost"):
        grammar.accept_token(5)


# --- speculative decoding ---------------------------------------------------------------------------------------------------


def tree(drafts: list[int]) -> tuple[Any, Any, Any]:
    """A chain of drafts after the token that was taken last, as SGLang lays a tree out: children, siblings, tokens."""
    count = len(drafts) + 1
    children = torch.tensor([*range(1, count), -1])
    return children, torch.full((count,), -1), torch.tensor([0, *drafts])


def test_masks_of_drafts(backend: Any, tokenizer: Any) -> None:
    """SGLang's own walk over a tree of drafts: a mask for each that is legal, and the state is where it was."""
    grammar = compiled(backend, "json", json.dumps(PERSON))
    drafts = [*tokenizer.encode('{"name": "Ada", "age": 36}'), 2]
    for wrong in (None, 3):
        listed = drafts if wrong is None else [*drafts[:wrong], 5, *drafts[wrong:]]
        masks = grammar.allocate_vocab_mask(SIZE, len(listed) + 1, "cpu")
        spec_utils.traverse_tree(*tree(listed), grammar, masks, vocab_size=SIZE)
        assert grammar.matcher.tokens == () and not grammar.is_terminated()
        follower = compiled(backend, "json", json.dumps(PERSON))
        for row, draft in enumerate([*listed, None]):
            expected = follower.allocate_vocab_mask(SIZE, 1, "cpu")
            if not follower.is_terminated() and (wrong is None or row <= wrong):
                follower.fill_vocab_mask(expected, 0)
            assert torch.equal(masks[row], expected[0]), row
            if draft is not None and (wrong is None or row < wrong):
                follower.accept_token(draft)


def test_a_tree_with_siblings(backend: Any, tokenizer: Any) -> None:
    grammar = compiled(backend, "regex", "(yes|no)!?")
    yes, no, mark = (tokenizer.encode(text)[0] for text in ("yes", "no", "!"))
    children, siblings = torch.tensor([1, 3, 4, -1, -1]), torch.tensor([-1, 2, -1, -1, -1])
    masks = grammar.allocate_vocab_mask(SIZE, 5, "cpu")
    spec_utils.traverse_tree(children, siblings, torch.tensor([0, yes, no, mark, 2]), grammar, masks, vocab_size=SIZE)
    bits = np.unpackbits(masks.numpy().view(np.uint8), axis=1, bitorder="little")
    assert {yes, no} <= set(np.flatnonzero(bits[0]).tolist())
    assert set(np.flatnonzero(bits[1]).tolist()) == set(np.flatnonzero(bits[2]).tolist()) == {mark, 2}
    assert set(np.flatnonzero(bits[3]).tolist()) == {2} and (masks[4] == -1).all()


@pytest.mark.parametrize("more", [[], ["a"], ["end"]])
def test_a_budget_crossed_by_a_draft_does_not_end_the_server(small: Any, tokenizer: Any, more: list[str]) -> None:
    """SGLang catches nothing there. What was crossed is told where the token is accepted."""
    request, tokens = hungry(small, tokenizer)
    [a] = tokenizer.encode("a")
    request.grammar.rollback(2)
    drafts = [a, a, a, *({"a": a, "end": 2}[name] for name in more)]
    masks = request.grammar.allocate_vocab_mask(SIZE, len(drafts) + 1, "cpu")
    spec_utils.traverse_tree(*tree(drafts), request.grammar, masks, vocab_size=SIZE)
    assert len(request.grammar.matcher.tokens) == len(tokens) - 2 and not request.grammar.is_terminated()
    retained = taken(request, drafts)
    assert retained == [a, a] and "max_expr_width" in request.to_finish.message


# --- jump-forward -----------------------------------------------------------------------------------------------------------


def jumped(grammar: Any, tokenizer: Any, output: list[int]) -> list[int]:
    """As SGLang's scheduler did it: the text is decoded, the forced text added, all of it tokenized anew."""
    helper = grammar.try_jump_forward(tokenizer)
    if helper is None:
        return output
    suffix_ids, _ = helper
    text, state = grammar.jump_forward_str_state(helper)
    assert suffix_ids == [] and text
    new = tokenizer.encode(tokenizer.decode(output) + text)
    grammar.jump_and_retokenize(output, new, state)
    return new


def test_jump_forward(backend: Any, tokenizer: Any) -> None:
    """Forced text is written at once, and the model is asked for the rest. The text is valid."""
    schema = obj(temperature=obj(unit={"const": "celsius"}, value={"enum": [1, 2]}), place={"enum": ["Rome"]})
    text = json.dumps(schema)
    compact = CdpluginBackend(tokenizer, SIZE, {2}, ServerOptions(whitespace="compact"))
    for made, share in ((compact, 0.4), (backend, 0.9)):
        grammar = compiled(made, "json", text)
        output: list[int] = []
        asked = 0
        for _ in range(100):
            output = jumped(grammar, tokenizer, output)
            assert tuple(output) == grammar.matcher.tokens
            options = allowed(grammar)
            ending = grammar.matcher.shortest_completion()
            token = 2 if 2 in options else ending[0]
            asked += 1
            grammar.accept_token(token)
            if grammar.is_terminated():
                break
            output.append(token)
        assert is_valid(schema, tokenizer.decode(output)) and asked < share * len(output), (asked, len(output))


def test_jump_forward_is_refused_whole(backend: Any, tokenizer: Any) -> None:
    grammar = compiled(backend, "regex", "(yes|no)!?")
    yes = tokenizer.encode("yes")
    for token in yes:
        grammar.accept_token(token)
    before = allowed(grammar)
    for new in ([*yes, 5], tokenizer.encode("maybe")):
        with pytest.raises(ValueError, match="jump forward: token .* is not allowed"):
            grammar.jump_and_retokenize(yes, new, -1)
        assert grammar.matcher.tokens == tuple(yes) and allowed(grammar) == before
    with pytest.raises(ValueError, match="own last"):
        grammar.jump_and_retokenize([7, 8], yes, -1)
    pieces = [*tokenizer.encode("y"), *tokenizer.encode("e"), *tokenizer.encode("s"), *tokenizer.encode("!")]
    grammar.jump_and_retokenize(yes, pieces, -1)
    assert grammar.matcher.tokens == tuple(pieces) and allowed(grammar) == {2}
    assert compiled(backend, "regex", "[a-z]+").try_jump_forward(tokenizer) is None


# --- reasoning --------------------------------------------------------------------------------------------------------------


def test_reasoning_is_free_and_what_follows_is_not(folder: Path, tokenizer: Any) -> None:
    reasoning = create(folder, tokenizer, "--reasoning-parser", "qwen3")
    end = tokenizer.convert_tokens_to_ids("</think>")
    thinking = compiled(reasoning, "regex", "(yes|no)!?", reasoning=True)
    directly = compiled(reasoning, "regex", "(yes|no)!?", reasoning=False)
    assert isinstance(thinking, ReasonedGrammar) and isinstance(thinking.copy(), ReasonedGrammar)
    answer = allowed(directly)
    thought = tokenizer.encode("Let me think: maybe")
    for token in [*thought, end]:
        rows = sampling([thinking, directly]).grammar_mask.vocab_mask
        bits = np.unpackbits(rows.numpy().view(np.uint8), axis=1, bitorder="little")
        assert bits[0].all() and set(np.flatnonzero(bits[1]).tolist()) == answer
        thinking.accept_token(token)
    assert allowed(thinking) == answer
    bits = sampling([thinking, directly]).grammar_mask.vocab_mask
    assert torch.equal(bits[0], bits[1])
    thinking.rollback(1)
    assert (sampling([thinking]).grammar_mask.vocab_mask == -1).all()
    for token in [end, *tokenizer.encode("yes"), 2]:
        thinking.accept_token(token)
    assert thinking.is_terminated()
    assert isinstance(compiled(reasoning, "regex", "(a", reasoning=True), InvalidGrammarObject)


def test_a_failure_that_says_nothing_of_the_request_is_not_remembered(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding: a request that had waited too long once, or met a full memory, was refused from then on."""
    key = ("regex", "(not|remembered) [a-z]{3}")
    backend.set_cache(key, InvalidGrammarObject("Grammar preprocessing timed out"))

    def full(*_: object) -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(backend.engine, "admitted", full)
        assert "MemoryError" in compiled(backend, *key).error_message
    assert isinstance(compiled(backend, *key), CdpluginGrammar)
    refused = ("regex", "(not")
    assert isinstance(compiled(backend, *refused), InvalidGrammarObject)
    assert isinstance(backend.get_cached_or_future_value(refused, False)[0], InvalidGrammarObject)


def test_frames_of_a_turn(backend: Any) -> None:
    """Models that frame their turns: the constraint becomes a part of a larger structural tag."""

    def frame(content: dict[str, Any]) -> dict[str, Any]:
        ends = [{"type": "const_string", "value": "<a>"}, content, {"type": "const_string", "value": "</a>"}]
        return {"type": "structural_tag", "format": {"type": "sequence", "elements": ends}}

    for kind, text, check in GRAMMARS[:5]:
        framed = backend.compile_framed_grammar(compiled(backend, kind, text), frame)
        output = written(backend, framed, 3)
        assert output.startswith("<a>") and check(output.removeprefix("<a>").removesuffix("</a>")), output
    tagged = compiled(backend, "structural_tag", json.dumps(STRUCTURAL))
    assert backend.compile_framed_grammar(tagged, frame) is None
    assert backend.compile_framed_grammar(compiled(backend, "json", "{}"), lambda content: {"format": {"type": "?"}}) is None


# --- the server -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text", "fits"),
    [
        ((), '{"name": "Ada", "age": 36}', True),
        (("--constrained-json-disable-any-whitespace",), '{"name": "Ada", "age": 36}', False),
        (("--constrained-json-disable-any-whitespace",), '{"name":"Ada","age":36}', True),
        (("--constrained-json-whitespace-pattern", "[ ]{2}"), '{  "name"  :  "Ada"  ,  "age"  :  36  }', True),
        (("--constrained-json-whitespace-pattern", "[ ]{2}"), '{"name":"Ada","age":36}', False),
    ],
)
def test_whitespace_as_the_server_asks(folder: Path, tokenizer: Any, arguments: tuple[str, ...], text: str, fits: bool) -> None:
    grammar = compiled(create(folder, tokenizer, *arguments), "json", json.dumps(PERSON))
    tokens = [*tokenizer.encode(text), 2]
    assert (grammar.matcher.validate_tokens(tokens) == len(tokens)) == fits


def test_options_of_a_request(backend: Any, tokenizer: Any) -> None:
    tokens = [*tokenizer.encode('{"age": 36, "name": "Ada"}'), 2]
    for options, fits in (({}, False), ({"property_order": "any"}, True)):
        grammar = compiled(backend, "json", json.dumps({**PERSON, "x-cdplugin": options}))
        assert (grammar.matcher.validate_tokens(tokens) == len(tokens)) == fits
    refused = compiled(backend, "json", json.dumps({**PERSON, "x-cdplugin": {"order": "any"}}))
    assert "unknown option" in refused.error_message and "/x-cdplugin" in refused.error_message


def test_options_of_the_environment(folder: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDPLUGIN_SGLANG_OPTIONS", '{"property_order": "any"}')
    grammar = compiled(create(folder, tokenizer), "json", json.dumps(PERSON))
    tokens = [*tokenizer.encode('{"age": 36, "name": "Ada"}'), 2]
    assert grammar.matcher.validate_tokens(tokens) == len(tokens)
    monkeypatch.setenv("CDPLUGIN_SGLANG_OPTIONS", '{"propperty_order": "any"}')
    with pytest.raises(ValueError, match="CDPLUGIN_SGLANG_OPTIONS.*propperty_order"):
        create(folder, tokenizer)


def test_the_cache_is_bounded(tokenizer: Any) -> None:
    """SGLang's own keeps every request's grammar for ever."""
    backend = CdpluginBackend(tokenizer, SIZE, {2}, ServerOptions(limits={"max_cache_bytes": 4 << 20}))
    for n in range(60):
        compiled(backend, "json", json.dumps(obj(**{f"key{n}": {"type": "string", "maxLength": n + 1}})))
    held = sum(value.matcher.grammar.nbytes for value in backend.cache.values())
    assert held <= 4 << 20 and 0 < len(backend.cache) < 60
    big = '{"type": "integr", "description": "' + "x" * (3 << 20) + '"}'
    assert isinstance(compiled(backend, "json", big), InvalidGrammarObject)
    assert ("json", big) not in backend.cache and len(backend.cache) == len(backend._recent)
    backend.reset()
    assert not backend.cache and not backend._recent


def test_end_tokens_are_the_model_s_and_the_tokenizer_s(tokenizer: Any) -> None:
    backend = CdpluginBackend(tokenizer, SIZE, [1, 2])
    assert set(backend.engine.vocab.eos_token_ids) == {1, 2}
    grammar = compiled(backend, "regex", "(yes|no)")
    grammar.accept_token(tokenizer.encode("yes")[0])
    assert allowed(grammar) == {1, 2}
