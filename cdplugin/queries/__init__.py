"""Questions to a followed text: shortest completions, forced tokens, captures, explanations. None changes the text.

=========  =============================================================================================================
endings    ``completion`` finds a short one, by ``costs`` of rules (``late_members``) and ``measures`` of expressions, in
           ``words`` that tokens spell; ``found_endings`` keeps them
budgets    ``budgets`` masks what leaves no room for an ending, by what a place's tokens lead to (``successors``,
           ``profiles``); where the budget is far away ``growth`` tells, with ``separators``, that nothing has to be found
forced     ``forced``: tokens that must come; ``likely``: tokens that may well come, for work ahead
readers    ``captures`` (``capture_lexing``), ``explain``, ``trace`` (``trace_html``), ``partial_json``
=========  =============================================================================================================
"""
