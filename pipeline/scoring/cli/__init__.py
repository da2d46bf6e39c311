"""The subcommands of `bleurt`, one module each, and what they share."""
