"""A trainer that trains nothing and a tester whose results are written down beforehand."""

from types import SimpleNamespace

import torch

from nearwise.logging_presets import get_hook_container, get_record_keeper
from nearwise.testers import GlobalEmbeddingSpaceTester
from testers.tester_data import train, val

P1 = "precision_at_1_level0"


class Scripted:
    """A calculator that returns the values it was given, one at each call."""

    def __init__(self, *values, metrics=("precision_at_1",)):
        self.values = list(values)
        self.metrics = list(metrics)

    def get_curr_metrics(self):
        return self.metrics

    def description(self):
        return ""

    def get_accuracy(self, *arguments):
        value = self.values.pop(0)
        return dict.fromkeys(self.metrics, value)


class Trainer:
    """What the hooks need of a trainer; its weights say which epoch they are of."""

    def __init__(self, losses=("metric_loss",)):
        self.epoch, self.iteration, self.iterations_per_epoch = 1, 0, 10
        self.models = {"trunk": torch.nn.Linear(2, 3), "embedder": torch.nn.Linear(3, 2)}
        self.optimizers = {"trunk_optimizer": torch.optim.Adam(self.models["trunk"].parameters(), lr=0.25)}
        self.lr_schedulers = {}
        self.loss_funcs = {"metric_loss": torch.nn.Identity()}
        self.mining_funcs = {}
        names = [*losses, "total_loss"]
        self.loss_tracker = SimpleNamespace(losses=dict.fromkeys(names, 0.5), loss_weights=dict.fromkeys(losses, 1))
        self.plateau = []

    def get_global_iteration(self):
        return self.iteration + self.iterations_per_epoch * (self.epoch - 1)

    def step_lr_plateau_schedulers(self, value):
        self.plateau.append(value)

    def become(self, epoch):
        self.epoch = epoch
        for model in self.models.values():
            torch.nn.init.constant_(model.weight, epoch)

    def weights(self):
        return {int(model.weight[0, 0]) for model in self.models.values()}


class Run:
    """Hooks in a folder, with a tester of scripted results on the validation split."""

    def __init__(self, folder, *values, tester=None, keeper=None, container=None, **options):
        self.folder = folder / "models"
        self.keeper = keeper or get_record_keeper(folder / "records")[0]
        hooks = {k: options.pop(k) for k in ("save_models", "log_freq", "record_group_name_prefix") if k in options}
        if container is None:
            self.hooks = get_hook_container(self.keeper, primary_metric="precision_at_1", **hooks)
        else:
            self.hooks = container(self.keeper, primary_metric="precision_at_1", **hooks)
        self.tester = tester or make(GlobalEmbeddingSpaceTester, Scripted(*values))
        self.tester.end_of_testing_hook = self.hooks.end_of_testing_hook
        self.trainer = Trainer()
        self.datasets = {"val": val()}
        self.hook = self.hooks.end_of_epoch_hook(self.tester, self.datasets, str(self.folder), **options)

    def epochs(self, *epochs):
        """Run the hook for some epochs; its answers and the best after each."""
        answers, best = [], []
        for epoch in epochs:
            self.trainer.become(epoch)
            answers.append(self.hook(self.trainer))
            best.append(self.hooks.get_best_epoch_and_accuracy(self.tester, "val"))
        return answers, best

    def history(self, **options):
        return self.hooks.get_accuracy_history(self.tester, "val", **options)

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())


def make(kind, calculator, **options):
    return kind(accuracy_calculator=calculator, dataloader_num_workers=0, data_device="cpu", **options)


def both():
    return {"train": train(), "val": val()}
