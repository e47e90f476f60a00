"""The kernels: Numba code on integer tables. They import NumPy, Numba and each other, and know nothing of Python objects.

==============  ==============================================================================================================
folder          what is in it
==============  ==============================================================================================================
``jit``         how kernels are compiled, linked, cached; views on memory
``store``       the arena: values, memo, stack; its layout; statuses
``regex``       expressions: constructors, derivatives, emptiness, counts
``lexer``       lexer states and their transitions
``parser``      rules, rows, cursors
``masks``       the trie, mask bases, masks, logits
``entry``       the one kernel that Python calls for a matcher
``infill``      texts with gaps and slots
==============  ==============================================================================================================

Each folder imports only those above it. ``infill`` has an entry of its own, and is compiled when it is first used.
"""
