"""vLLM: the structured-output backend ``cdplugin``, and a logits processor for engines that cannot use it.

A request goes from top to bottom:

===========  ===========================================================================================================
front end    ``plugin`` makes the name known to vLLM and validates requests; ``tools`` is an option about tool calls
engine       ``backend`` compiles (on ``threads``), ``grammar`` follows a request's tokens, within its ``budget``; ``masks``
             applies masks on the CPU
instead      ``logits``: the logits processor
operators    ``doctor`` looks at an installation, ``health`` at a server that runs
versions     ``compat`` has all that differs between vLLM's versions
===========  ===========================================================================================================
"""
