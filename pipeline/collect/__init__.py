"""The stage collect: human ratings of any layout become one table, split without leaks."""
