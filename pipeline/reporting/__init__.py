"""What people read: one offline HTML page, plots for DVC, and the headline table."""
