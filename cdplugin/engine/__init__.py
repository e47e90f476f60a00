"""The Python owners of the kernels' tables: arenas, and what is laid out in them (expressions, lexemes, rules).

======  ================================================================================================================
memory  ``owned_tables`` holds an arena's tables and grows them; ``pages`` and ``blocks`` are the memory that they lie in
arena   ``arena`` runs kernel operations until they are finished; each arena is a clone of a ``base_arena``;
        ``shared_bases`` lets grammars of one vocabulary share mask bases; ``values`` reads what is stored
rules   ``expander`` puts a compiled grammar into an arena: ``rules``, ``lexemes``, and expressions as ``programs``; it makes
        the late rules of families, and ``tracked`` those that depend on a typed value
======  ================================================================================================================
"""
