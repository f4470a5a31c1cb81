"""Banks, simulator, folds, replay, metrics and pictures."""
