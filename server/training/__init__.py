"""What every training loop stands on: optimizer, learning-rate schedule, checkpoints, log."""
