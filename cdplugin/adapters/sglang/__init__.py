"""SGLang: the grammar backend ``cdplugin``, registered through SGLang's own plugin interface, without patches.

    python -m sglang.launch_server --model-path MODEL --grammar-backend cdplugin

What SGLang 0.5.23 calls, when, and what happens to errors (read in its sources; ``tests/adapters/test_sglang.py`` makes the
same calls)::

    every process          load_plugins() → plugin.register: adds our name to --grammar-backend's choices and to the registry
    scheduler, at start    create_grammar_backend → backend.make: vocabulary, kernels. It also wraps the backend for reasoning,
                           because SGLang returns a registered backend before it reaches its own wrapper
    scheduler, its threads _init_value_dispatch → dispatch_json …: compiles; an error is an InvalidGrammarObject: HTTP 400
    scheduler, each step   fill_vocab_mask_batched, move, apply: **an exception ends the server**; accept_token: ValueError ends
                           the request (HTTP 500), anything else the server; rollback: an exception ends the server
    speculative decoding   traverse_tree: accept, fill, rollback for each draft; here a ValueError ends the server as well

So only ``accept_token`` raises, and not while SGLang traverses drafts, of which a hook on ``traverse_tree`` tells us
(``HookRegistry``, SGLang's official interface).
"""
