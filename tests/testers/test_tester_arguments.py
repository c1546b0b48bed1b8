"""What is said of wrong arguments when a tester is made."""

import re

import pytest

from nearwise.testers import GlobalEmbeddingSpaceTester


@pytest.mark.rule("T-0")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"normalize_embeddings": "no"}, TypeError, "normalize_embeddings must be a bool, got 'no'"),
        ({"use_trunk_output": 1}, TypeError, "use_trunk_output must be a bool, got 1"),
        ({"pca_suffix": None}, TypeError, "pca_suffix must be a bool, got None"),
        ({"progress": "bar"}, TypeError, "progress must be a bool, got 'bar'"),
        ({"batch_size": 0}, ValueError, "batch_size must be a positive integer, got 0"),
        ({"batch_size": "32"}, TypeError, "batch_size must be a positive integer, got '32'"),
        ({"dataloader_num_workers": -1}, ValueError, "dataloader_num_workers must be an integer of at least 0, got -1"),
        ({"data_device": "foo"}, ValueError, "data_device must be one that torch knows, got 'foo'"),
        ({"data_device": [1]}, TypeError, "data_device must be a string or a torch.device, got [1]"),
        ({"dtype": "float32"}, TypeError, "dtype must be a torch.dtype or None, got 'float32'"),
        ({"data_and_label_getter": 3}, TypeError, "data_and_label_getter must be callable or None, got 3"),
        ({"end_of_testing_hook": 3}, TypeError, "end_of_testing_hook must be callable or None, got 3"),
        ({"visualizer_hook": 3}, TypeError, "visualizer_hook must be callable or None, got 3"),
        ({"accuracy_calculator": 3}, TypeError, "accuracy_calculator must have a method get_accuracy, got 3"),
        ({"label_hierarchy_level": "x"}, TypeError, "must be an integer, a list of integers or 'all', got 'x'"),
        ({"label_hierarchy_level": 1.5}, TypeError, "must be an integer, a list of integers or 'all', got 1.5"),
        ({"label_hierarchy_level": [0, True]}, TypeError, "a list of integers or 'all', got [0, True]"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        GlobalEmbeddingSpaceTester(**arguments)
