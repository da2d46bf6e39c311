"""The stage label: each run gives every pair one automatic signal, the targets of pre-training (section 4.2)."""
