"""vLLM: the structured-output backend ``cdplugin``, and a logits processor for engines that cannot use it."""
