"""Infilling: texts with gaps, and the canvases of diffusion models, kept completable to a word of the language."""
