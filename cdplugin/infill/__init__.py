"""Infilling: texts with gaps, and canvases of diffusion models, kept completable to a word of the language.

docs/how-infilling-works.md explains the algorithm. The modules, from the public class down to the tables:

=========  =============================================================================================================
session    ``session`` is the public class; ``parts`` are the pieces of its text, ``witness`` is one legal way to fill them;
           ``at_rest`` keeps tables for the next session of a grammar
answers    ``answers`` asks the lattices, then the matcher; for a mask it uses ``proofs`` (gaps) and ``slot_proofs`` (canvases)
lattices   ``tables`` owns the kernels' ``workspace``; ``complete`` spells fillings. Computed once for a grammar:
           ``rule_edges``, ``chains``, ``going_on``, ``room``, ``separators``, ``characters``
gaps       with the matcher: ``gap_texts`` and ``openings`` ended other gaps, ``search`` looks for new texts
canvases   with the matcher: ``canvases``, by a ``beam`` from place to place, or ``together`` from many cursors at once;
           ``known_ends``, ``token_classes`` and ``usual_tokens`` make it fast
matcher    ``steps`` and ``text_tree`` follow texts from cursors
=========  =============================================================================================================
"""
