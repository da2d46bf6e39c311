"""Correlation with people, resampling, tests of differences."""
