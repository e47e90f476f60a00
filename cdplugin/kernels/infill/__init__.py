"""Infilling: the lattice of a text with gaps, and the grammar intersected with it.

How a question is answered, and where:

=====================  ==========================================================================================
files                  what they find
=====================  ==========================================================================================
``effects`` ``steps``  what a gap or one token does to a lexer state; what an element of the text does to a set of them
``lattice``            the text's nodes, and which lexemes lead from which to which (``boundaries``, ``starts``, ``spans``,
                       ``slots``, ``state_sets``; which nodes are the same: ``ahead``, ``twins``)
``intersect``          from right to left: where the rest of each rule may end. Is there a completion? (``gathering``,
                       ``alive``, ``taken_over``, ``stale``; ``asked``, ``chains``; ``gap_plan``, ``gap_facts``,
                       ``gap_ends``, ``gap_rests``)
``items``              from left to right, up to the place whose mask is asked for: parser items that can be completed
``holes``              the mask: the trie, or ``profiles``, beside ``columns`` of items (``first_columns``, ``reach``, ``ways``,
                       ``pairs``), only where tokens are in ``doubt``
``derivation``         a completion: a cheapest derivation of the text; ``measure``: what lexemes cost in gaps
``checkpoints``        what of all that is still true for the next text
``workspace``          tables, rows of bits; ``layout`` says what is in them; ``entry`` is what Python calls
=====================  ==========================================================================================

The text ``[a □ ]`` with the grammar ``S: "[" L "]"   L: E | E "," L   E: w``, ``w: /[a-z]+/``, goes through all files as an
example::

    elements     [     a     □     ]
    nodes     0     1     2  (3)      4 END       node 3 is inside the gap
    spans     "[" 0 -> 1    w 1 -> 2 3    "]" 2 -> 3 4 END    "," 2 -> 3    in the gap: w "," 3 -> 3, "]" 3 -> 3 4 END
"""
