"""Search hyperparameters: a Hydra sweeper over Optuna studies, with pruning, resuming and a verdict."""
