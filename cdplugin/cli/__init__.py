"""The command line: one module per group of commands; ``main`` is the entry point, with ``check``, ``mask`` and ``warmup``.

The others are ``trace``, ``playground``, ``keywords``, ``learn``, ``doctor``, and ``carry`` for ``warmup --target``. ``vocab``
reads what a command line names as a vocabulary.
"""
