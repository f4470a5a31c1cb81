"""The report page: valid, self-contained, escaped, and its numbers are the score's."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

import hspr
from hspr.experiments.evaluation import Evaluation, evaluate_agent
from hspr.experiments.report import report_numbers, report_page, write_report
from hspr.experiments.report_sections import diagnostics_section, header
from hspr.experiments.report_tables import settings_section
from hspr.experiments.score_path import score_path
from hspr.models.config import Config
from hspr.models.errors import DataError
from hspr.models.responses import ResponseMatrix
from hspr.tests.oracles_models import random_matrix

VALUES = random_matrix(7, 24, seed=4805).values
AGENTS = ['агент <b>&"x"</b> 智能体', *(f"a{i}" for i in range(6))]
TASKS = [f"{i}</td><script src='http://x.org/{i}'>&amp;\"{'x' * 100}" for i in range(24)]
BANK = ResponseMatrix.from_arrays(VALUES, agents=AGENTS, tasks=TASKS, name="<bank> & co")
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements, texts and attributes of a page; tags must close in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[list[str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.cells[-1][-1] += data
        elif "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(autouse=True)
def no_window() -> object:
    with mpl.rc_context({"backend": "agg"}):
        yield


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate_agent(BANK, AGENTS[0], Config(rank=1, calibration=0.5), budget=6, nodes=512)


@pytest.fixture(scope="module")
def text(evaluation: Evaluation) -> str:
    return report_page(evaluation)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_page_requests_nothing(text: str, page: Page) -> None:
    assert {tag for tag, _ in page.elements}.isdisjoint(
        {"script", "img", "iframe", "object", "embed", "audio", "video", "source", "base", "form"}
    )
    for _, attributes in page.elements:
        for name, value in attributes.items():
            if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
                assert (value or "").startswith(("#", "data:"))
            assert not name.startswith("on")
    assert re.findall(r"url\((?!#)|@import|@font-face", text) == []
    # The only addresses are those in the tasks' own names.
    assert set(re.findall(r"https?://[^/]*", text)) == {"http://x.org"}


def test_page_is_accessible(page: Page) -> None:
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    assert len(page.all("h2")) == 6
    for attributes in page.all("svg"):
        assert attributes["role"] == "img"
        name = attributes["aria-labelledby"]
        assert {"id": name} in page.all("title")
    assert len(page.all("svg")) == len(page.all("figcaption")) == 6
    assert len(page.all("caption")) == len(page.all("table")) == 4
    assert all("scope" in attributes for attributes in page.all("th"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    references = re.findall(r"#([\w-]+)", " ".join(map(str, (a for _, a in page.elements))))
    assert set(references) <= set(ids)


def test_page_tells_the_scores_numbers(evaluation: Evaluation, page: Page) -> None:
    score, numbers = evaluation.score, report_numbers(evaluation)
    low, high = score.interval(0.9)
    assert evaluation.truth is not None
    for figure in (score.estimate, score.observed_share, evaluation.truth):
        assert f"{figure:.1%}" in page.text
    assert f"{low:.1%} to {high:.1%}" in page.text
    assert numbers["interval_kind"] in page.text
    error = 100 * (score.estimate - evaluation.truth)
    assert f"estimate off by {'−' if error < 0 else '+'}{abs(error):.1f} points" in page.text
    assert (
        "inside" if low <= evaluation.truth <= high else "outside"
    ) + " the interval" in page.text
    assert ("can be trusted" if score.trusted else "cannot be trusted") in page.text
    rows = {row[0]: row[1] for row in page.cells if len(row) == 2}
    assert rows["Trusted"] == ("yes" if score.trusted else "no")
    assert rows["Effective nodes"].startswith(f"{score.ess:,.0f} of 512 ")
    assert rows["Posterior mean"] == f"{100 * score.mean:.3f}%"
    assert rows["Budget"] == "6 tasks"
    assert rows["Calibration"] == "0.5"
    assert rows["Kappa"] == "4.0"
    assert rows["Query seed"] == "0"
    assert rows["Seed of the nodes"] == "20261005"
    assert rows["hspr"] == hspr.__version__
    assert rows["Bank"].startswith("<bank> & co: 6 source agents, 24 tasks in ")


def test_page_names_agent_and_bank_escaped(text: str, page: Page) -> None:
    assert f"Score of {AGENTS[0]} on <bank> & co" in page.text
    assert "&lt;bank&gt; &amp; co" in text


def test_page_lists_the_queries_in_order(evaluation: Evaluation, text: str, page: Page) -> None:
    outcomes, path = evaluation.evaluator.outcomes, score_path(evaluation.evaluator)
    rows = [row for row in page.cells if len(row) == 7]
    assert rows[0] == ["#", "Task", "Group", "Expected", "Outcome", "Score", "90% interval"]
    assert [row[0] for row in rows[1:]] == [str(i) for i in range(1, 7)]
    assert [row[1] for row in rows[1:]] == list(outcomes)
    assert [row[4] for row in rows[1:]] == [
        "solved" if outcome else "not solved" for outcome in outcomes.values()
    ]
    for query, row in enumerate(rows[1:], start=1):
        step = path.loc[query]
        assert row[3] == f"{step['predicted']:.0%}"
        assert row[5] == f"{step['mean']:.1%}"
        assert row[6] == f"{step['low']:.1%} to {step['high']:.1%}"
    assert "<script" not in text


def test_numbers_are_json(evaluation: Evaluation) -> None:
    numbers = report_numbers(evaluation, prob=0.5)
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    score = evaluation.score
    assert numbers["interval"] == list(score.interval(0.5))
    assert numbers["estimate"] == score.estimate
    assert numbers["error"] == score.estimate - numbers["truth"]
    assert numbers["max_weight"] == evaluation.evaluator.sampler.arrays.weight.max()
    assert numbers["config"] == evaluation.evaluator.config.to_dict()


def test_page_without_truth_and_outcomes() -> None:
    evaluation = evaluate_agent(BANK, "a1", Config(rank=0), budget=0, nodes=128)
    page = Page(report_page(replace(evaluation, truth=None)))
    assert "True score" not in page.text
    assert "No task was queried." in page.text
    assert "no outcome yet" in page.text
    assert len(page.all("svg")) == 4
    numbers = report_numbers(replace(evaluation, truth=None))
    assert numbers["truth"] is numbers["error"] is numbers["observed_share"] is None
    assert numbers["pareto_k"] is None


@pytest.mark.parametrize(
    ("pareto_k", "why"), [(0.91, " and their weights have a heavy tail"), (0.3, "")]
)
def test_header_warns_of_an_untrusted_posterior(
    evaluation: Evaluation, pareto_k: float, why: str
) -> None:
    numbers = report_numbers(evaluation) | {"trusted": False, "ess": 10.24, "pareto_k": pareto_k}
    text = Page(header(numbers)).text
    assert f"cannot be trusted. 2.0% of the sampler's nodes are effective{why}: compute" in text


@pytest.mark.parametrize(
    ("pareto_k", "words"),
    [
        (0.25, "0.25 (good up to 0.70)"),
        (float("inf"), "infinite: a few weights dominate"),
        (float("-inf"), "none: all weights are equal"),
    ],
)
def test_diagnostics_say_what_the_tail_is(
    evaluation: Evaluation, pareto_k: float, words: str
) -> None:
    numbers = report_numbers(evaluation) | {"pareto_k": pareto_k}
    figures = {"weights": lambda alt, caption: "", "overlay": lambda alt, caption: ""}
    rows = dict(Page(diagnostics_section(numbers, {}, figures)).cells)
    assert rows["Pareto k of the weights"] == words


def test_settings_tell_of_missing_outcomes() -> None:
    values = VALUES.copy()
    values[1, :9] = float("nan")
    bank = ResponseMatrix.from_arrays(values, agents=AGENTS, tasks=TASKS).with_missing("model")
    evaluation = evaluate_agent(bank, "a0", Config(rank=0), budget=3, nodes=128)
    rows = dict(Page(settings_section(report_numbers(evaluation))).cells)
    assert rows["Bank"].endswith("of the bank's 24: the agent has no outcome for the others")
    assert rows["Missing outcomes"] == "kept as missing"


def test_page_draws_another_posterior_over_its_own(evaluation: Evaluation) -> None:
    other = evaluation.evaluator.posterior
    page = Page(report_page(evaluation, others={"other <i>": other}))
    rows = {row[0]: row[1] for row in page.cells if len(row) == 2}
    mean = 100 * float(other["posterior_predictive"]["score"].mean())
    assert rows["Same, from other <i>"].startswith(f"{mean:.3f}% (")
    assert "other <i>" in page.words


def test_write_report_writes_whole_and_the_same_in_any_style(
    evaluation: Evaluation, text: str, tmp_path: Path
) -> None:
    odd = replace(evaluation, agent="a\ud800b")
    before = plt.get_fignums()
    with mpl.rc_context({"lines.color": "#123456", "text.color": "#654321", "font.size": 30}):
        path = write_report(odd, tmp_path / "отчёт.html")
        assert mpl.rcParams["font.size"] == 30
    assert plt.get_fignums() == before
    content = path.read_text(encoding="utf-8")
    assert content.replace("a&#55296;b", escape(AGENTS[0])) == text
    with pytest.raises(DataError, match="cannot write"):
        write_report(evaluation, tmp_path / "none" / "report.html")
    with pytest.raises(DataError, match="prob must be between 0 and 1, got 2"):
        write_report(evaluation, path, prob=2)
    assert path.read_text(encoding="utf-8") == content
    assert [file.name for file in tmp_path.iterdir()] == ["отчёт.html"]
