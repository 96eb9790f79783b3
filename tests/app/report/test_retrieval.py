"""What the report on an adapted embedding says."""


def test_it_says_what_was_gained_and_by_whom(adaptations, pages):
    found, text = adaptations["helped"], pages["helped"].read_text(encoding="utf-8")
    page = text.split('<script type="application/json"')[0]
    before, after = (found.values[key]["nDCG@10"] for key in ("before", found.chosen))
    assert (
        f"Use it: mean nDCG@10 {100 * after.mean():.1f} against {100 * before.mean():.1f}" in page
    )
    won, lost = int((after > before).sum()), int((after < before).sum())
    assert f"{won} queries won, {lost} lost" in page
    most = found.held_out[after - before == (after - before).max()]
    assert any(f"&lt;i&gt;query&lt;/i&gt; {query} " in page for query in most)
    assert "<i>" not in page and "<b>" not in page and "{{" not in page and "a &lt; b" in page
    assert "queries only" in page and "queries and documents" in page


def test_it_says_when_nothing_helped(pages):
    text = pages["frozen"].read_text(encoding="utf-8")
    assert "so it was left as it is" in text and "keep the embedding" in text
    assert "0 queries won, 0 lost, 18 stayed." in text
