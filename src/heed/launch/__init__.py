"""The plan of a run."""
