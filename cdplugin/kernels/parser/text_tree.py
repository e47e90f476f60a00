"""Follow many texts from one cursor, common prefixes only once.

::

    question | first node  n nodes  work | parent << 8 | byte …  (n words) | cursor …  (n words)       int64

A node is a byte after its parent's text; parent 0 is the empty text, parent ``i + 1`` is node ``i``, which comes before its
children. ``):`` and ``):#`` are three nodes. Below an illegal text nothing is followed.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import view_i64
from cdplugin.kernels.parser.cursors import step
from cdplugin.kernels.store import statuses
from cdplugin.kernels.store.arena import spend

T_NODES, T_WORK, T_TREE, T_CURSORS = range(4)
TREE_QUESTION_WORDS = 4


@kernel
def step_tree(h, cursor, question_address):
    """Write the cursor after the text of each node, 0 if it is illegal; 0, or a status.

    ``question_address``: int64 words: how many nodes; the units of work for each node that is followed (besides what a step
    spends); the addresses of the nodes and of their cursors, int64 words.
    """
    question = view_i64(question_address, TREE_QUESTION_WORDS)
    n_nodes = question[T_NODES]
    tree = view_i64(question[T_TREE], n_nodes)
    cursors = view_i64(question[T_CURSORS], n_nodes)
    for node in range(n_nodes):
        parent = tree[node] >> 8
        before = cursor if parent == 0 else cursors[parent - 1]
        after = np.int64(0)
        if before != 0:
            if not spend(h, question[T_WORK]):
                return np.int64(statuses.LIMIT_WORK)
            after = step(h, before, tree[node] & 0xFF)
            if after < 0:
                return after
        cursors[node] = after
    return np.int64(0)
