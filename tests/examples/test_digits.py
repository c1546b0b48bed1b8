import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def digits():
    spec = importlib.util.spec_from_file_location("digits", ROOT / "examples" / "digits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_trains_chooses_a_threshold_and_draws(digits, tmp_path, capsys):
    import matplotlib.image

    found = digits.main(["--out", str(tmp_path), "--epochs", "6"])
    assert found["epochs"] == 6
    assert found["validation_map_at_r"] > 0.7
    assert found["validation_accuracy"] > 0.88
    # The threshold holds on samples that took no part in choosing it.
    assert abs(found["test_accuracy"] - found["validation_accuracy"]) < 0.05
    assert "test accuracy" in capsys.readouterr().out
    for name in ("history.png", "embedding.png"):
        image = matplotlib.image.imread(tmp_path / name)
        assert min(image.shape[:2]) > 300
        assert image[..., :3].std() > 0.05
    best = f"trunk_best{found['best_epoch']}.pth"
    assert sorted(path.name for path in (tmp_path / "models").glob("trunk_[b0-9]*")) == ["trunk_6.pth", best]


def test_the_example_goes_on_where_it_stopped(digits, tmp_path):
    digits.main(["--out", str(tmp_path), "--epochs", "1"])
    assert digits.main(["--out", str(tmp_path), "--epochs", "2"])["epochs"] == 2
    assert digits.main(["--out", str(tmp_path), "--epochs", "2"])["epochs"] == 2


def test_the_example_says_what_epochs_may_be(digits, capsys):
    with pytest.raises(SystemExit):
        digits.main(["--epochs", "0"])
    assert "argument --epochs: must be at least 1, got 0" in capsys.readouterr().err
