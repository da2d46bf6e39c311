"""Agreement of metrics with people: correlation, resampling, significance, baselines, tables."""
