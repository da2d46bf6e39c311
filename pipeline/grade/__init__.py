"""The stage grade: candidates whose quality is known from how they are made."""
