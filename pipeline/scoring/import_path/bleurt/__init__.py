"""The import path of the original BLEURT (google-research/bleurt), for code that was written for it.

The folder above this one lies at the end of `sys.path` (setup.py), so the original, where it is installed, comes first.
"""
