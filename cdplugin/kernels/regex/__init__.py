"""Expressions over bytes as hash-consed values: constructors, derivatives, emptiness, counts.

``expressions`` builds them in normal form, ``literals`` holds sets of strings as one node, ``derive`` steps them by a byte.
The other files answer questions about them: ``emptiness`` and ``lengths`` whether they match anything, ``slices`` how much
plain text they live through, ``saturate`` which counts no token can tell apart, ``absorb`` which alternatives another one
contains.
"""
