"""From anybody's scores to probabilities: arrays alone, no PyTorch."""
