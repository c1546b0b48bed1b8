"""Exact and fast nearest neighbours, thresholds and evaluation of embeddings.

Importing this package needs and loads NumPy alone; torch and the other extras are imported by what uses them.
"""

from nearwise import distances
from nearwise._core import __version__
from nearwise.data import load_example
from nearwise.index import KNNIndex
from nearwise.neighbors import Neighbors, knn

__all__ = ["KNNIndex", "Neighbors", "__version__", "distances", "knn", "load_example"]
