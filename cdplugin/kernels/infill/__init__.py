"""Infilling kernels: the lattice of a text with gaps, its intersection with the grammar, masks, and completions.

How a question is answered, and where:

=====================  ==========================================================================================
files                  what they compute
=====================  ==========================================================================================
``effects`` ``steps``  what a gap or one token does to a lexer state; what an element of the text does to a set of them
``lattice``            the text's nodes, and which lexemes lead from which node to which (``boundaries``, ``starts``,
                       ``spans``, ``slots``, ``state_sets``; which nodes are merged: ``ahead``, ``twins``)
``intersect``          facts, right to left: where the rest of each rule may end; hence, is there a completion?
                       (``gathering``, ``alive``, ``taken_over``, ``stale``; on demand: ``asked``, ``chains``; in gaps:
                       ``gap_plan``, ``gap_facts``, ``gap_ends``, ``gap_rests``)
``items``              Earley items, left to right, up to the hole: only those that can still be completed
``holes``              the mask: a walk of the trie, or ``profiles``, beside ``columns`` of items (``first_columns``,
                       ``reach``, ``ways``, ``pairs``); only tokens in ``doubt`` are walked
``derivation``         a completion: a cheapest derivation of the text; ``measure``: what lexemes cost in gaps
``checkpoints``        what of the last text's lattice still holds for this one
``workspace``          tables and rows of bits; ``layout`` says what they hold; ``entry`` is what Python calls
=====================  ==========================================================================================

The module docstrings share one example, the text ``[a □ ]`` with the grammar ``S: "[" L "]"   L: E | E "," L   E: w``, where
``w`` is ``/[a-z]+/``::

    elements     [     a     □     ]
    nodes     0     1     2  (3)      4 END       node 3 is inside the gap
    spans     "[" 0 -> 1    w 1 -> 2 3    "]" 2 -> 3 4 END    "," 2 -> 3    in the gap: w "," 3 -> 3, "]" 3 -> 3 4 END
"""
