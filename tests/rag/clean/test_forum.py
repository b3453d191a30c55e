from hypothesis import given
from hypothesis import strategies as st

from rag.clean.forum import is_thread, latest_change, shape_thread

answers = st.lists(
    st.fixed_dictionaries(
        {"text": st.text(min_size=1, max_size=5).filter(str.strip)},
        optional={"score": st.integers(-9, 9), "accepted": st.booleans()},
    ),
    max_size=6,
)


@given(answers)
def test_no_answer_is_lost_and_accepted_ones_lead_by_score(listed: list[dict[str, object]]) -> None:
    posts = shape_thread({"question": "q", "answers": listed})[1:]
    accepted = sorted((a for a in listed if a.get("accepted")), key=lambda a: -int(str(a.get("score", 0))))
    others = sorted((a for a in listed if not a.get("accepted")), key=lambda a: -int(str(a.get("score", 0))))
    assert [post.text for post in posts] == [str(a["text"]).strip() for a in [*accepted, *others]]
    assert [post.heading for post in posts].count("Accepted answer") == len(accepted)


def test_a_row_is_a_thread_by_its_question_or_its_answers() -> None:
    assert is_thread({"question": "q"})
    assert is_thread({"answers": []})
    assert not is_thread({"text": "t", "question": None})


def test_the_latest_answer_dates_the_thread() -> None:
    assert latest_change({"asked_at": "2024", "answers": [{"answered_at": "2025"}, {"answered_at": "2026"}]}) == "2026"
    assert latest_change({"asked_at": "2024"}) == "2024"
    assert latest_change({}) is None
