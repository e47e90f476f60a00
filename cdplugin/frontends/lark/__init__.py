"""Lark grammars, in the extended syntax of LLGuidance, as a front end. docs/grammars.md describes the language.

=======  ===============================================================================================================
read     ``scan`` and ``parse`` turn the text into a ``tree``; ``options``, ``json_options`` and ``substring`` read the
arguments
         of ``%llguidance``, ``%json`` and ``%regex``; ``definitions`` resolves names and checks their uses
lower    ``terminals`` builds byte expressions; ``draft`` turns rule bodies into productions; ``parameters`` evaluates those of
         parametric rules; ``indent`` rewrites blocks of ``%indent``; ``stops`` and ``bounded`` handle the ends of embedded text
check    ``endings`` finds rules that never end, ``corners`` those with too many left corners; ``search`` and ``byte_sets`` are
         their tools
write    ``compile`` drives it all; ``write`` writes the draft into the IR and places ``%ignore``
=======  ===============================================================================================================
"""

from cdplugin.frontends.lark.compile import compile_lark

__all__ = ["compile_lark"]
