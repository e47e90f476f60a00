"""Sets of bytes with which the texts of an expression begin (FIRST), or may be extended."""

from __future__ import annotations

from collections.abc import Sequence

from cdplugin import expr
from cdplugin.expr import ALL_BYTES, Expr, nullable
from cdplugin.walks import fold


class Bytes:
    """Byte sets of expressions as 256-bit integers. ``generous``: return a superset where the set is not visible, else a
    subset.
    """

    def __init__(self, generous: bool) -> None:
        self._generous = generous
        self._first: dict[Expr, int] = {}
        self._nullable: dict[Expr, bool] = {}

    def first(self, root: Expr) -> int:
        """The first bytes of an expression's texts."""
        return fold(root, self._leading, self._node, self._first)

    def _leading(self, node: Expr) -> Sequence[Expr]:
        """The parts of a node that determine its first bytes."""
        if node.op == expr.CAT_OP:
            for i, part in enumerate(node.args):
                if not nullable(part, self._nullable):
                    return node.args[: i + 1]
            return node.args
        if node.op in (expr.ALT_OP, expr.AND_OP):
            return node.args
        return node.args[:1] if node.op == expr.REPEAT_OP else ()

    def _node(self, node: Expr, below: Sequence[int]) -> int:
        op = node.op
        if op == expr.BYTES_OP:
            return node.args[0]
        mask = 0
        if op == expr.LITERALS_OP:
            for text in node.args:
                mask |= 1 << text[0] if text else 0
        elif op == expr.AND_OP:
            mask = ALL_BYTES if self._generous else 0
            for first in below:
                mask &= first
        elif op == expr.NOT_OP:
            mask = ALL_BYTES if self._generous else 0
        else:
            for first in below:
                mask |= first
        return mask

    def eaten(self, root: Expr) -> int:
        """Bytes that may extend every text of an expression to a longer one, as far as the expression's end shows."""
        mask, parts = ALL_BYTES, [root]
        while parts:
            node = parts.pop()
            if node.op == expr.CAT_OP:
                parts.append(node.args[-1])
            elif node.op == expr.ALT_OP:
                parts += node.args
            elif node.op == expr.REPEAT_OP and node.args[2] is None:
                mask &= self.first(node.args[0])
            elif node.op != expr.EMPTY_OP:
                return 0
        return mask
