"""Pre-training signals (section 4.2): each module turns reference-candidate pairs into the columns of one signal."""
