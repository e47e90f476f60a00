"""JSON Schema (Draft 2020-12, and Drafts 4 to 2019-09 by ``$schema``) as a front end.

Where a keyword is read and enforced, ``keyword_map`` says. What the files do, in the order in which a schema meets them:

===========  ===========================================================================================================
read         ``source`` checks what the caller passed; ``reader`` makes each reachable schema a checked ``schema``, as its
             ``dialect`` has it; ``refs`` resolves references; ``options`` are the caller's
merge        ``shapes`` intersects what applies in one place and splits it into alternatives; ``negation`` makes complements,
             ``disjoint`` knows what cannot hold together, ``unevaluated`` what is left, ``sharing`` what would multiply
scalars      ``scalars`` merges them; ``strings``, ``formats`` (``formats_uri``, ``formats_data``), ``numbers``, ``multiples``,
             ``fixed_numbers`` and ``values`` are their expressions; ``matching`` asks what an expression matches
structure    ``writing`` is what ``arrays`` and ``objects`` (``names``) have in common; ``repetition`` needs no memory,
             ``members`` and ``any_order`` do (``bracketed``, ``closing``)
uniqueItems  ``distinct`` for scalars; ``distinct_items`` for the others (``distinct_stacks``, ``distinct_values``, ``signs``)
write        ``compile`` has all that done and writes the rules; ``layout`` puts the whitespace, ``barren`` finds what derives
             no text
===========  ===========================================================================================================

Schemas in which nothing is to be merged, as in most, go from ``usual_reader`` to their rules in ``usual`` alone: less is done,
and the same comes out.
"""

from cdplugin.frontends.json_schema.compile import check_schema, compile_schema
from cdplugin.frontends.json_schema.options import USUAL, Options
from cdplugin.frontends.json_schema.strings import characters

__all__ = ["USUAL", "Options", "characters", "check_schema", "compile_schema"]
