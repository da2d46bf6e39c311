"""Human ratings of many origins, as one table with leak-free splits."""
