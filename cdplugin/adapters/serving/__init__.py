"""What servers need that a single loop does not: requests read as specs, checked before they are scheduled, compiled once.

    requests.py          a request's kind and text become a spec; the options of a server, and those in a request's schema
    engine.py            vocabulary, compiler and outcomes of checks, one for all requests of a tokenizer; tells of slow ones
    door.py              checks beside an event loop
    metrics.py           what all processes of a server count, for Prometheus

Nothing here knows a server: :mod:`cdplugin.adapters.vllm` and :mod:`cdplugin.adapters.sglang` bind it to theirs.
"""
