"""Pictures as files and as SVG text."""

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.pictures import plot_score, save_picture, svg_text
from hspr.models.errors import DataError

Evaluated = Callable[..., Evaluator]


@pytest.mark.parametrize("outcomes", [0, 6, 20])
def test_save_picture_writes_a_png(evaluated: Evaluated, outcomes: int, tmp_path: Path) -> None:
    evaluator = evaluated(outcomes)
    picture = plot_score(evaluator.posterior, evaluator.score(), truth=0.35)
    path = save_picture(picture, tmp_path / "score.png")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    assert [file.name for file in tmp_path.iterdir()] == ["score.png"]


def test_save_picture_refuses_a_missing_folder(evaluated: Evaluated, tmp_path: Path) -> None:
    evaluator = evaluated(0)
    picture = plot_score(evaluator.posterior, evaluator.score())
    with pytest.raises(DataError, match=r"cannot write .*score\.png: No such file or directory"):
        save_picture(picture, tmp_path / "none" / "score.png")


def test_svg_text_is_reproducible_and_keeps_words(evaluated: Evaluated) -> None:
    evaluator = evaluated(6)
    texts = [svg_text(plot_score(evaluator.posterior, evaluator.score())) for _ in range(2)]
    assert texts[0] == texts[1]
    root = ElementTree.fromstring(texts[0])
    words = [element.text for element in root.iter() if element.tag.endswith("}text")]
    assert "score posterior after 6 of 20 tasks" in words
    assert not any("metadata" in element.tag for element in root.iter())
