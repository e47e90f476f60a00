"""The command line: one module per group of commands; :mod:`cdplugin.cli.main` is the entry point."""
