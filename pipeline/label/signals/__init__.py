"""The pre-training signals (section 4.2), one module each."""
