"""``cdplugin playground``: serve the page until interrupted."""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import webbrowser

from cdplugin.cli import main as cli
from cdplugin.cli.vocab import load_vocabulary, said


def playground(args: argparse.Namespace) -> bool:
    """Serve until Ctrl-C. Raises CommandError for a port in use, VocabularyError, and what loading a model raises."""
    from cdplugin.playground.server import Server
    from cdplugin.playground.service import Playground
    from cdplugin.warmup import warm_if_cold

    if not 0 <= args.port < 1 << 16:
        raise cli.CommandError(f"--port: expected 0 to 65535, found {args.port}")
    model = None
    if args.model is not None:
        try:
            from cdplugin.playground.model import Model

            model = Model(args.model)
        except ImportError:
            raise cli.CommandError("--model: transformers is not installed: pip install 'cdplugin[hf]'") from None
        except Exception as error:  # whatever a folder's files may hold
            raise cli.CommandError(f"--model {args.model}: {said(error)}") from None
    warm_if_cold()
    name = model.name if model is not None and args.tokenizer == "byte" else args.tokenizer
    vocab = load_vocabulary(args.tokenizer, args.vocab_size, args.end) if model is None else model.vocabulary()
    try:
        server = Server(Playground(vocab, "bytes" if name == "byte" else name, model), args.port)
    except OSError as error:
        raise cli.CommandError(f"--port {args.port}: {error.strerror}; --port 0 takes any that is free") from None
    if model is not None:
        model.load()
    print(f"playground: {server.url} (this machine only; Ctrl-C ends it)", file=sys.stderr, flush=True)
    if args.open:
        threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    return True
