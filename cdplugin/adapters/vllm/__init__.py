"""vLLM: the structured-output backend ``cdplugin``, and a logits processor for engines that cannot use it.

The modules, in the order in which a request meets them:

===========  ===========================================================================================================
front end    ``plugin`` makes the name known to vLLM and validates requests; ``tools`` is an option about tool calls
engine       ``backend`` compiles (on ``threads``); ``grammar`` holds a request's state, within its ``budget``; ``masks``
             applies masks on the CPU
instead      ``logits``: the logits processor
operators    ``doctor`` checks an installation, ``health`` a running server
versions     ``compat`` has everything that differs between vLLM's versions
===========  ===========================================================================================================
"""
