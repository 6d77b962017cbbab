"""What every training loop uses: optimizer, learning-rate schedule, checkpoints, log."""
