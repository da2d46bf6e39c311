"""The stage report: tables and charts of all stages."""
