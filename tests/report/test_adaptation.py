"""What the report on an adapted embedding says."""

from types import SimpleNamespace

import numpy as np
import pytest

from conemetric.report.adaptation import headline
from conemetric.studies.adapting import MAIN, RRF, Adaptation


def test_it_says_what_was_gained_and_by_whom(adaptations, pages):
    found, text = adaptations["helped"], pages["helped"].read_text(encoding="utf-8")
    before, after = (found.values[key]["nDCG@10"] for key in ("before", found.chosen))
    assert (
        f"Use it: mean nDCG@10 {100 * after.mean():.1f} against {100 * before.mean():.1f}" in text
    )
    assert found.difference("nDCG@10").low > 0.3
    won, lost = int((after > before).sum()), int((after < before).sum())
    assert f"{won} queries gained, {lost} lost" in text
    most = found.held_out[after - before == (after - before).max()]
    assert any(f"&lt;i&gt;query&lt;/i&gt; {query} " in text for query in most)
    assert "<i>" not in text and "<b>" not in text and "{{" not in text and "a &lt; b" in text
    best = int(np.argmax(after - before))
    assert f"<td>{100 * before[best]:.0f} \u2192 {100 * after[best]:.0f}</td>" in text
    assert "queries only" in text and "queries and documents" in text


def test_it_says_when_nothing_helped(pages):
    text = pages["frozen"].read_text(encoding="utf-8")
    assert "more than its standard error: keep the embedding." in text
    assert "0 queries gained, 0 lost, 18 unchanged." in text


@pytest.mark.parametrize(
    ("fusion", "words"),
    [
        (0.4, None),
        (0.6, "cannot tell it apart from rank fusion"),
        (0.8, "Rank fusion, which needs no training, is better"),
    ],
)
def test_rank_fusion_is_named_where_it_may_be_as_good(fusion, words):
    rng = np.random.default_rng(0)
    chance = rng.normal(0, 0.1, size=(3, 150))
    chance -= chance.mean(axis=1, keepdims=True)
    means = {"before": 0.3, "queries": 0.6, RRF: fusion}
    found = object.__new__(Adaptation)
    found.chosen = "queries"
    found.options = SimpleNamespace(seed=0)
    settings = SimpleNamespace(setting="frozen")
    found.fitted = {"queries": SimpleNamespace(setting_="learned", candidates_=[settings])}
    found.values = {
        name: {MAIN: mean + noise}
        for (name, mean), noise in zip(means.items(), chance, strict=True)
    }
    said = headline(found)
    assert said.startswith("Use it: ")
    if words is None:
        assert "usion" not in said
    else:
        assert words in said
        assert f"{100 * found.values[RRF][MAIN].mean():.1f}" in said
