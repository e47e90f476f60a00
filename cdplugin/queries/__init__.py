"""Questions to a followed text: shortest completions, forced tokens, captures, explanations. None changes the text."""
