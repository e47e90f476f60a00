"""Questions about a followed text: shortest completions, forced tokens, captures, explanations. None of them changes the text.

=========  =============================================================================================================
endings    ``completion`` finds short endings, guided by ``costs`` of rules (``late_members``) and ``measures`` of
           expressions, with ``words`` that tokens can spell; ``found_endings`` remembers them
budgets    ``budgets`` masks tokens that leave no room for an ending, by where a place's tokens lead (``successors``,
           ``profiles``); ``growth``, with ``separators``, bounds what is left, so that far budgets need no search
forced     ``forced``: tokens that must come; ``likely``: tokens that may well come, for work ahead
readers    ``captures`` (``capture_lexing``), ``explain``, ``trace`` (``trace_html``), ``partial_json``
=========  =============================================================================================================
"""
