"""Agreement with people, resampling, tests of metrics and of systems."""
