"""The stage grade: candidates whose quality is known by how they were made."""
