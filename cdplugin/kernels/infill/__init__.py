"""Infilling: the lattice of a text with gaps, and the grammar intersected with it."""
