"""The pre-training signals (section 4.2): one module each, found by its name; `pipeline.label.labelling` says how."""
