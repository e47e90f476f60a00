"""JSON Schema (Draft 2020-12, and Drafts 4 to 2019-09 by ``$schema``) as a front end.

``source`` checks what the caller passed, ``reader`` reads and validates every reachable subschema (``schema``), ``refs``
resolves references, ``shapes`` intersects and splits what applies in one place, with ``negation`` for complements and
``disjoint`` for what cannot hold together, ``compile`` writes the rules; ``numbers``, ``strings`` and ``values`` build the
lexemes, ``layout`` puts the whitespace. Schemas in which nothing is to be merged, as in most, go from ``usual_reader`` to their
rules in ``usual`` alone: less is done, and the same comes out.
"""

from cdplugin.frontends.json_schema.compile import check_schema, compile_schema
from cdplugin.frontends.json_schema.options import USUAL, Options
from cdplugin.frontends.json_schema.strings import characters

__all__ = ["USUAL", "Options", "characters", "check_schema", "compile_schema"]
