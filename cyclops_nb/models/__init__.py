"""How models are spoken to: requests out, streams in."""
