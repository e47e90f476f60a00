"""Expressions over bytes as hash-consed values: constructors, derivatives, emptiness, counts."""
