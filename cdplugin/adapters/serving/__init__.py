"""What servers need beyond a decoding loop: requests read as specs, checked before they are scheduled, compiled once.

    requests.py          a request's kind and text become a spec; options of a server, and those inside a request's schema
    engine.py            vocabulary, compiler and check results, shared by all requests of a tokenizer; logs slow requests
    door.py              checks requests on threads, beside an event loop
    metrics.py           counts of all processes of a server, for Prometheus

Nothing here knows a server: :mod:`cdplugin.adapters.vllm` and :mod:`cdplugin.adapters.sglang` bind it to theirs.
"""
