"""Exact and fast nearest neighbours, thresholds and evaluation of embeddings."""
