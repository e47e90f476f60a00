"""Tags around constrained text: structural tags, tool calls, text that is free until a trigger."""
