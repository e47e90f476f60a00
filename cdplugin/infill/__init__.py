"""Infilling: texts with gaps, and the canvases of diffusion models, kept completable to a word of the language.

docs/how-infilling-works.md says how. What the files do, from what a caller sees downwards:

=========  =============================================================================================================
session    ``session`` is the public class; ``parts`` are the pieces of its text, ``witness`` one legal way to fill them;
           ``at_rest`` keeps tables for the next session of a grammar
answers    ``answers`` asks the lattices first, then the matcher: for a mask ``proofs`` (gaps) and ``slot_proofs`` (canvases)
lattices   ``tables`` owns the kernels' (``workspace``); ``complete`` spells fillings. What is known of a grammar before any
           text: ``rule_edges``, ``chains``, ``going_on``, ``room``, ``characters``
gaps       by the matcher: ``rests`` and ``openings`` are texts that ended other gaps, ``search`` looks for new ones
canvases   by the matcher: ``canvases``, by a ``beam`` from place to place, or ``together`` from many cursors; ``known_ends``,
           ``token_classes`` and ``usual_tokens`` make it fast
matcher    ``steps`` and ``text_tree`` follow texts from cursors
=========  =============================================================================================================
"""
