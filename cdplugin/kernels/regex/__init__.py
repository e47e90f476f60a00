"""Expressions over bytes as hash-consed values: constructors, derivatives, emptiness, counts.

``expressions`` builds them in normal form, as ``programs`` say, ``literals`` holds sets of strings as one node, ``derive``
steps them by a byte. The other files answer questions about them: ``emptiness``, ``likely_text`` and ``lengths`` whether they
match anything, ``texts`` which texts, ``measures`` how short ones, ``slices`` how much plain text they live through,
``saturate`` which counts no token can tell apart, ``absorb`` which alternatives another one contains.
"""
