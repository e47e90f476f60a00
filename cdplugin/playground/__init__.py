"""``cdplugin playground``: a local page that shows what a schema or grammar allows as one types.

:mod:`cdplugin.playground.service` answers, :mod:`cdplugin.playground.server` is the HTTP around it, ``static/`` the page.
"""
