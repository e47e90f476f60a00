"""Brute-force membership in byte expressions, independent of the derivatives in the kernels."""

from __future__ import annotations

from cdplugin.expr import ALT_OP, AND_OP, BYTES_OP, CAT_OP, EPSILON_OP, LITERALS_OP, NOT_OP, REPEAT_OP, Expr


class Member:
    """Membership in an expression, by memoised recursion on (node, start)."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.memo: dict[tuple[int, int], frozenset[int]] = {}

    def ends(self, node: Expr, start: int) -> frozenset[int]:
        """The positions at which a match of ``node`` that begins at ``start`` may end."""
        key = (id(node), start)
        if key not in self.memo:
            self.memo[key] = frozenset(self._ends(node, start))
        return self.memo[key]

    def _ends(self, node: Expr, start: int) -> set[int] | frozenset[int]:
        op, args = node.op, node.args
        if op == EPSILON_OP:
            return {start}
        if op == BYTES_OP:
            return {start + 1} if start < len(self.data) and args[0] >> self.data[start] & 1 else set()
        if op == LITERALS_OP:
            return {start + len(a) for a in args if self.data.startswith(a, start)}
        if op == ALT_OP:
            return set().union(*(self.ends(a, start) for a in args))
        if op == AND_OP:
            return frozenset.intersection(*(self.ends(a, start) for a in args))
        if op == NOT_OP:
            return set(range(start, len(self.data) + 1)) - self.ends(args[0], start)
        if op == CAT_OP:
            now = {start}
            for part in args:
                now = {e for s in now for e in self.ends(part, s)}
            return now
        if op == REPEAT_OP:
            return self._repeat(*args, start)
        return set()

    def _repeat(self, child: Expr, low: int, high: int | None, start: int) -> set[int]:
        found, now, count = set(), {start}, 0
        while now:
            if count >= low:
                if now <= found:
                    break
                found |= now
            if count == high:
                break
            after = {e for s in now for e in self.ends(child, s)}
            if after == now and count < low:
                return now
            now, count = after, count + 1
        return found


def accepts(expression: Expr, data: bytes) -> bool:
    return len(data) in Member(data).ends(expression, 0)
