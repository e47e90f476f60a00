"""Adapters: cdplugin inside other libraries' decoding loops. Each imports its library; none is imported by the core."""
