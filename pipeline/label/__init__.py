"""The stage label: pairs get one automatic signal."""
