"""Regular expressions over bytes as hash-consed values: constructors, derivatives, emptiness, counts.

``expressions`` builds them in normal form, ``programs`` builds many in one call, ``literals`` holds a set of strings as one
node, ``derive`` takes derivatives. The other modules answer questions: ``emptiness``, ``likely_text`` and ``lengths``, whether
an expression matches anything; ``texts``, which texts it matches; ``measures``, how short a match may be; ``slices``, how much
plain text keeps it alive; ``saturate``, which counts no token can tell apart; ``absorb``, which alternatives another one
contains.
"""
