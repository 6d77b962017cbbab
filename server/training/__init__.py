"""What every training loop stands on: optimizer and learning rates, checkpoints, log and meter."""
