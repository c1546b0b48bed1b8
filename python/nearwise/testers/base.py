"""What all testers do: embed the splits, look for neighbours, name and keep the results."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nearwise._arguments import check_callable, checked_flag, natural, positive, torch_device
from nearwise.testers.embedding import as_numpy, embed, moved
from nearwise.testers.labels import Column, LabelMapper, encoded
from nearwise.testers.names import ResultNames, check_levels
from nearwise.testers.pca import PrincipalBasis
from nearwise.testers.splits import Evaluation, evaluations, result_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

logger = logging.getLogger(__name__)

EmbeddingsAndLabels = dict[str, tuple[Tensor, Tensor]]


class BaseTester(ResultNames):
    """The common part of the testers; a subclass scores one query split in `do_knn_and_accuracies`.

    Parameters
    ----------
    normalize_embeddings : bool
        Divide every embedding by its Euclidean norm, after PCA.
    use_trunk_output : bool
        Take the trunk's output and leave the embedder out.
    batch_size, dataloader_num_workers : int
        Of the data loader; results do not depend on them.
    pca : int, optional
        Standardise the embeddings and project them to so many principal axes. One basis for each ``test()``, fitted on
        the reference splits together; `get_all_embeddings` alone fits it on its own data.
    data_device : str or torch.device, optional
        Where batches go and embeddings stay; by default CUDA if there is one.
    dtype : torch.dtype, optional
        What the data is cast to.
    data_and_label_getter : callable, optional
        From a batch to (data, labels); by default the batch is that pair.
    label_hierarchy_level : int, list of int or "all"
        Which columns of the labels to score.
    end_of_testing_hook : callable, optional
        Called with the tester once at the end of every ``test()``.
    dataset_labels, set_min_label_to_zero
        See `LabelMapper`. String labels need neither: they become their rank among the labels met.
    accuracy_calculator : AccuracyCalculator, optional
        What scores; by default ``nearwise.evaluation.AccuracyCalculator()``.
    visualizer, visualizer_hook : optional
        An object with ``fit_transform`` (UMAP, t-SNE), run on every split, and what is called with
        ``(visualizer, reduced, labels, split, keyname, epoch)`` for every split and label level.
    pca_suffix : bool
        Whether keys of results end in ``_pca<N>`` when `pca` is set.
    progress : bool
        Show a bar while embedding.

    Attributes
    ----------
    all_accuracies : dict
        What the last ``test()`` returned.
    embeddings_and_labels : dict
        ``{split: (embeddings, labels)}`` while ``test()`` runs, the hook included; gone afterwards.
    reference_split_names, query_split_names : dict
        For the key of each result so far: its reference splits, and its query split.
    """

    def __init__(
        self,
        normalize_embeddings: bool = True,
        use_trunk_output: bool = False,
        batch_size: int = 32,
        dataloader_num_workers: int = 2,
        pca: int | None = None,
        data_device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        data_and_label_getter: Callable[[Any], Any] | None = None,
        label_hierarchy_level: Any = 0,
        end_of_testing_hook: Callable[[Any], Any] | None = None,
        dataset_labels: Any = None,
        set_min_label_to_zero: bool = False,
        accuracy_calculator: Any = None,
        visualizer: Any = None,
        visualizer_hook: Callable[..., Any] | None = None,
        *,
        pca_suffix: bool = True,
        progress: bool = False,
    ) -> None:
        if accuracy_calculator is None:
            accuracy_calculator = self._default_calculator()
        elif not hasattr(accuracy_calculator, "get_accuracy"):
            raise TypeError(f"accuracy_calculator must have a method get_accuracy, got {accuracy_calculator!r}")
        if data_device is None:
            data_device = "cuda" if torch.cuda.is_available() else "cpu"
        if not (dtype is None or isinstance(dtype, torch.dtype)):
            raise TypeError(f"dtype must be a torch.dtype or None, got {dtype!r}")
        check_callable("data_and_label_getter", data_and_label_getter)
        check_callable("end_of_testing_hook", end_of_testing_hook)
        check_callable("visualizer_hook", visualizer_hook)
        check_levels(label_hierarchy_level)
        self.normalize_embeddings = checked_flag("normalize_embeddings", normalize_embeddings)
        self.use_trunk_output = checked_flag("use_trunk_output", use_trunk_output)
        self.batch_size = positive("batch_size", batch_size)
        self.dataloader_num_workers = natural("dataloader_num_workers", dataloader_num_workers)
        self.pca = None if pca is None else positive("pca", pca)
        self.data_device = torch_device("data_device", data_device)
        self.dtype = dtype
        self.data_and_label_getter = data_and_label_getter or _as_it_is
        self.label_hierarchy_level = label_hierarchy_level
        self.end_of_testing_hook = end_of_testing_hook
        self.dataset_labels = dataset_labels
        self.set_min_label_to_zero = set_min_label_to_zero
        self.accuracy_calculator = accuracy_calculator
        self.visualizer = visualizer
        self.visualizer_hook = visualizer_hook or _nothing
        self.pca_suffix = checked_flag("pca_suffix", pca_suffix)
        self.progress = checked_flag("progress", progress)
        self.label_mapper = LabelMapper(set_min_label_to_zero, dataset_labels)
        self.all_accuracies: dict[str, dict[str, Any]] = {}
        self.reference_split_names: dict[str, list[str]] = {}
        self.query_split_names: dict[str, str] = {}
        self.embeddings_and_labels: EmbeddingsAndLabels

    def _default_calculator(self) -> Any:
        from nearwise import evaluation

        return evaluation.AccuracyCalculator()

    def test(
        self,
        dataset_dict: Mapping[str, Any],
        epoch: Any,
        trunk_model: Any,
        embedder_model: Any = None,
        splits_to_eval: Iterable[Any] | None = None,
        collate_fn: Callable[..., Any] | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Embed the splits and score each query split against its references.

        Parameters
        ----------
        dataset_dict : mapping
            Datasets by split name.
        epoch : object
            Recorded with the results, used for nothing else.
        trunk_model, embedder_model : callable
            Applied one after the other, in eval mode, in which they stay; no embedder means the trunk alone.
        splits_to_eval : iterable of (str, sequence of str), optional
            Query splits, each with the splits to look for neighbours in; by default each split in itself. Only what is
            named is embedded, and each split once. A query may come again with other references: its first result is
            kept under its name, a later one under ``<query>_vs_<A>_and_<B>`` (references in alphabetical order).
        collate_fn : callable, optional
            Of the data loader.

        Returns
        -------
        dict of dict
            ``{split: {"epoch": epoch, "<metric>_level<L>": value, ...}}``, also kept as ``all_accuracies``.

        Raises
        ------
        KeyError
            If a split is not in `dataset_dict`.
        ContractError
            If a pair of query and references is empty or occurs twice, or a label level does not exist.
        ValueError, TypeError
            If a dataset, its labels or the embeddings cannot be used.
        """
        logger.info("evaluating epoch %s", epoch)
        splits_to_eval, needed = self.get_splits_to_compute_embeddings(dataset_dict, splits_to_eval)
        references = list(dict.fromkeys(name for _, names in splits_to_eval for name in names))
        try:
            self.embeddings_and_labels = self._embed_splits(
                {name: dataset_dict[name] for name in needed}, references, (trunk_model, embedder_model), collate_fn
            )
            self._visualize(epoch)
            self.all_accuracies = {}
            for query, names in splits_to_eval:
                key = result_key(query, names, self.all_accuracies)
                self.all_accuracies[key] = {"epoch": epoch}
                self.reference_split_names[key], self.query_split_names[key] = names, query
                self.do_knn_and_accuracies(self.all_accuracies[key], self.embeddings_and_labels, query, names)
            if self.end_of_testing_hook is None:
                logger.info("%s", self.all_accuracies)
            else:
                self.end_of_testing_hook(self)
        finally:
            self.__dict__.pop("embeddings_and_labels", None)
        return self.all_accuracies

    def get_all_embeddings(
        self,
        dataset: Any,
        trunk_model: Any,
        embedder_model: Any = None,
        collate_fn: Callable[..., Any] | None = None,
        eval: bool = True,
        return_as_numpy: bool = False,
    ) -> tuple[Any, Any]:
        """Return the embeddings and labels of one dataset, as ``test()`` would use them.

        Parameters
        ----------
        dataset : Dataset
            With a length.
        trunk_model, embedder_model, collate_fn
            As in `test`.
        eval : bool
            Put the models in eval mode, in which they stay; False leaves their mode alone.
        return_as_numpy : bool
            Return NumPy arrays.

        Returns
        -------
        (Tensor, Tensor) or (ndarray, ndarray)
            Embeddings (N, D) and labels (N, levels).
        """
        streams, columns = self._embed(dataset, (trunk_model, embedder_model), collate_fn, set_eval=eval)
        basis = PrincipalBasis.fit(torch.cat(streams), self.pca) if self.pca else None
        labels = encoded({"dataset": columns}, self.label_mapper)["dataset"]
        embeddings, labels = self._finished(streams, labels, basis)
        if return_as_numpy:
            return as_numpy(embeddings), labels.cpu().numpy()
        return embeddings, labels

    def get_embeddings_for_eval(self, trunk_model: Any, embedder_model: Any, input_imgs: Any) -> Tensor:
        """Return the embeddings (batch, D) of a batch of data."""
        output = trunk_model(moved(input_imgs, self.data_device, self.dtype))
        return output if self.use_trunk_output or embedder_model is None else embedder_model(output)  # type: ignore[no-any-return]

    def get_splits_to_compute_embeddings(
        self, dataset_dict: Mapping[str, Any], splits_to_eval: Iterable[Any] | None
    ) -> tuple[list[Evaluation], list[str]]:
        """Return the (query, references) pairs to evaluate and the splits to embed for them.

        A query that is among its references comes first of them, which is what scoring a set against itself needs.
        """
        pairs = evaluations(dataset_dict, splits_to_eval)
        return pairs, list(dict.fromkeys(name for query, names in pairs for name in (query, *names)))

    def set_reference_and_query(
        self, embeddings_and_labels: EmbeddingsAndLabels, query_split_name: str, reference_split_names: list[str]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return query embeddings, query labels, reference embeddings and reference labels of one evaluation."""
        query = embeddings_and_labels[query_split_name]
        references = [embeddings_and_labels[name] for name in reference_split_names]
        if len(references) == 1:
            return *query, *references[0]
        return *query, torch.cat([e for e, _ in references]), torch.cat([labels for _, labels in references])

    def ref_includes_query(self, query_split_name: str, reference_split_names: list[str]) -> bool:
        """Return whether the query's own samples are among the references, which goes by the name of the split."""
        return query_split_name in reference_split_names

    def do_knn_and_accuracies(
        self,
        accuracies: dict[str, Any],
        embeddings_and_labels: EmbeddingsAndLabels,
        query_split_name: str,
        reference_split_names: list[str],
    ) -> None:
        """Add the results of one evaluation to `accuracies`; what a subclass must define."""
        raise NotImplementedError

    def maybe_normalize(self, embeddings: Tensor) -> Tensor:
        """Return embeddings as they are compared: rows of norm 1, if asked for; a zero row stays zero."""
        if not self.normalize_embeddings:
            return embeddings
        # float16 cannot hold the least norm to divide by.
        wide = embeddings.float() if embeddings.dtype in (torch.float16, torch.bfloat16) else embeddings
        return torch.nn.functional.normalize(wide, eps=1e-12).to(embeddings.dtype)

    def streams_and_labels(self, models: tuple[Any, Any], batch: Any) -> tuple[list[Tensor], Any]:
        """Return one batch's embeddings, one tensor for each stream, and its labels."""
        data, labels = self.data_and_label_getter(batch)
        return [self.get_embeddings_for_eval(*models, data)], labels

    def _embed(
        self, dataset: Any, models: tuple[Any, Any], collate_fn: Callable[..., Any] | None, *, set_eval: bool = True
    ) -> tuple[list[Tensor], list[Column]]:
        """Return the raw embeddings of each stream and the labels as they are."""
        for model in models if set_eval else ():
            if hasattr(model, "eval"):
                model.eval()
        return embed(
            dataset,
            lambda batch: self.streams_and_labels(models, batch),
            device=self.data_device,
            loader={
                "batch_size": self.batch_size,
                "num_workers": self.dataloader_num_workers,
                "collate_fn": collate_fn,
            },
            progress=self.progress,
        )

    def _embed_splits(
        self,
        datasets: dict[str, Any],
        references: list[str],
        models: tuple[Any, Any],
        collate_fn: Callable[..., Any] | None,
    ) -> EmbeddingsAndLabels:
        """Return the embeddings of each split in one basis, and labels in one numbering."""
        raw = {}
        for name, dataset in datasets.items():
            logger.info("embedding the %s split", name)
            raw[name] = self._embed(dataset, models, collate_fn)
        labels = encoded({name: columns for name, (_, columns) in raw.items()}, self.label_mapper)
        basis = (
            PrincipalBasis.fit(torch.cat([s for name in references for s in raw[name][0]]), self.pca)
            if self.pca
            else None
        )
        return {name: self._finished(streams, labels[name], basis) for name, (streams, _) in raw.items()}

    def _finished(self, streams: list[Tensor], labels: Tensor, basis: PrincipalBasis | None) -> tuple[Tensor, Tensor]:
        """Return the streams one below the other, projected and normalised, and the labels as often."""
        finished = [self.maybe_normalize(basis.project(stream) if basis else stream) for stream in streams]
        labels = labels.to(self.data_device)
        if len(finished) == 1:
            return finished[0], labels
        return torch.cat(finished), torch.cat([labels] * len(finished))

    def _visualize(self, epoch: Any) -> None:
        """Reduce the embeddings of every split and call the visualizer's hook for every label level."""
        if not self.visualizer:
            return
        for split, (embeddings, labels) in self.embeddings_and_labels.items():
            reduced = self.visualizer.fit_transform(as_numpy(embeddings))
            for level in self.label_levels_to_evaluate(labels):
                key = self.accuracies_keyname(type(self.visualizer).__name__, label_hierarchy_level=level)
                self.visualizer_hook(self.visualizer, reduced, labels[:, level].cpu().numpy(), split, key, epoch)


def _as_it_is(batch: Any) -> Any:
    """Return the batch."""
    return batch


def _nothing(*arguments: Any) -> None:
    """Do nothing."""
