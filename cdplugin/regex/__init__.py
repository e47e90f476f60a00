"""Regular expressions in three dialects, read into byte expressions (:mod:`cdplugin.expr`)."""
