"""Retrieval backends and evaluation of embeddings."""

from nearwise.evaluation.custom_knn import CustomKNN

__all__ = ["CustomKNN"]
