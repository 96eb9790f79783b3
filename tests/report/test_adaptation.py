"""What the report on an adapted embedding says."""

import numpy as np


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
