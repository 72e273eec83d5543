"""HTML pages: comparisons of runs, hyperparameter studies, attention maps. Each is one file without dependencies."""
