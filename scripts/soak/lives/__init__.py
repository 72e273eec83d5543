"""Random life cycles: trainings with a random choice of features, then random commands on the run."""
