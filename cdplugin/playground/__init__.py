"""``cdplugin playground``: a local page that shows what a schema or grammar allows as one types.

:mod:`cdplugin.playground.service` computes the answers, :mod:`cdplugin.playground.server` serves them by HTTP, ``static/`` is
the page.
"""
