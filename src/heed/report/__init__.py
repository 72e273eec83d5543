"""HTML pages: the comparison of runs, and attention maps to explore. Each page is one file without dependencies."""
