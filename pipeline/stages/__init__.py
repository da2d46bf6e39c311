"""The runnable modules, one per DVC stage: parse paths, load params, call a library."""
