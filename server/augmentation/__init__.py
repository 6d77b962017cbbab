"""Augmenters by models and thesauri, and the cache that keeps what they made."""

from pocketquery.server.augmentation.catalogue import CATALOGUE
from pocketquery.server.augmentation.fill import Filled, fill
from pocketquery.server.augmentation.variant_cache import VariantCache

__all__ = ["CATALOGUE", "VariantCache", "Filled", "fill"]
