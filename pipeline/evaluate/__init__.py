"""The stage evaluate: how well metrics agree with people."""
