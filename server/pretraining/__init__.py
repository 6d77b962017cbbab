"""What every training loop on the server shares: resumable checkpoints and schedules."""

from pocketquery.server.pretraining.checkpoints import load_checkpoint, save_checkpoint
from pocketquery.server.pretraining.schedule import warmup_linear

__all__ = ["load_checkpoint", "save_checkpoint", "warmup_linear"]
