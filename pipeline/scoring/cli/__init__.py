"""The subcommands of `bleurt`, a module each (see `pipeline.scoring.__main__`)."""
