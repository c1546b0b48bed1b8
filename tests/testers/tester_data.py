"""Points on an ellipse and the testers that score them."""

import numpy as np
import torch
from torch.utils.data import Dataset

from nearwise.evaluation import AccuracyCalculator

TRAIN_ANGLES = [0, 10, 20, 30, 50, 60, 70, 80]
TRAIN_LABELS = [0, 0, 0, 0, 1, 1, 1, 1]
VAL_ANGLES = [1, 11, 21, 31, 51, 59, 71, 81]
VAL_LABELS = [1, 1, 1, 1, 1, 0, 0, 0]
FAMILY_ANGLES = [0, 9, 21, 29, 31, 39, 51, 59]
FAMILY_LABELS = [[0, 0], [0, 0], [1, 0], [1, 0], [2, 1], [2, 1], [3, 1], [3, 1]]
P1 = "precision_at_1_level0"


def points(angles):
    radians = np.deg2rad(np.array(angles, dtype=np.float64))
    return torch.tensor(np.stack([2 * np.cos(radians), 0.5 * np.sin(radians)], axis=1), dtype=torch.float32)


class Items(Dataset):
    """Samples one by one, counting how often each was asked for."""

    def __init__(self, *columns):
        self.columns = columns
        self.asked = 0

    def __len__(self):
        return len(self.columns[0])

    def __getitem__(self, i):
        self.asked += 1
        return tuple(column[i] for column in self.columns)


def train():
    return Items(points(TRAIN_ANGLES), TRAIN_LABELS)


def val():
    return Items(points(VAL_ANGLES), VAL_LABELS)


def family(labels=None):
    return Items(points(FAMILY_ANGLES), torch.tensor(FAMILY_LABELS if labels is None else labels))


def make_tester(kind, *, include=("precision_at_1",), calculator=None, **options):
    options.setdefault("dataloader_num_workers", 0)
    options.setdefault("data_device", "cpu")
    return kind(accuracy_calculator=calculator or AccuracyCalculator(include=include), **options)
