"""The command line: one module for each group of commands; ``main`` is the entry point, with ``check``, ``mask``, ``warmup``.

The others are ``trace``, ``playground``, ``keywords``, ``learn``, ``doctor``, and ``carry`` for ``warmup --target``. ``vocab``
loads the vocabulary that a command line names.
"""
