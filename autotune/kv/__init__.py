"""From a model and the layout of its KV cache to the shapes of transfers; pure arithmetic."""
