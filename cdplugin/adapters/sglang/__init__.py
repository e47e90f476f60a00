"""SGLang: the grammar backend ``cdplugin``, registered through SGLang's own plugin interface, without a patch.

    python -m sglang.launch_server --model-path MODEL --grammar-backend cdplugin

What SGLang 0.5.23 calls, when, and what it may be told (read in its sources; ``tests/adapters/test_sglang.py`` calls
the same)::

    every process          load_plugins() → plugin.register: our name among --grammar-backend's choices, and in the registry
    scheduler, at start    create_grammar_backend → backend.make: vocabulary, kernels; reasoning is wrapped here, for a
                           registered backend is returned before SGLang's own wrapper is reached
    scheduler, its threads _init_value_dispatch → dispatch_json …: compiles; a fault is an InvalidGrammarObject: HTTP 400
    scheduler, each step   fill_vocab_mask_batched, move, apply: **an exception ends the server**; accept_token: ValueError ends
                           the request (HTTP 500), anything else the server; rollback: an exception ends the server
    speculative decoding   traverse_tree: accept, fill, rollback for each draft; there a ValueError ends the server as well

So nothing but ``accept_token`` raises, and that not while drafts are looked at, which a hook of SGLang's tells us
(``HookRegistry``, its official interface).
"""
