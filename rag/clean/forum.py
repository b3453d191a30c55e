"""A forum thread as one object -> its posts in the order in which they should be read."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Post:
    """One part of a thread; the question has no heading."""

    heading: str
    text: str


def is_thread(row: Mapping[str, object]) -> bool:
    """Whether the row has the shape of a forum thread: a question, or a list of answers."""
    return isinstance(row.get("question"), str) or isinstance(row.get("answers"), list)


def shape_thread(row: Mapping[str, object]) -> list[Post]:
    """The question, the accepted answer, then the others by score, the highest first; empty posts are left out.

    Missing fields count as empty, a missing score as 0; equal scores keep their order.
    """
    posts = [Post("", _text(row.get("question")))]
    if tags := _names(row.get("tags")):
        posts.append(Post("", f"Tags: {', '.join(tags)}"))
    answers = _answers(row)
    answers.sort(key=lambda answer: (answer.get("accepted") is not True, -_score(answer)))
    for answer in answers:
        heading = "Accepted answer" if answer.get("accepted") is True else "Other answer"
        posts.append(Post(heading, _text(answer.get("text"))))
    return [post for post in posts if post.text]


def latest_change(row: Mapping[str, object]) -> object:
    """The latest `answered_at` of the thread, else its `asked_at`, as written; None where it has neither."""
    answered = [str(answer["answered_at"]) for answer in _answers(row) if answer.get("answered_at")]
    return max(answered, default=None) or row.get("asked_at")


def _answers(row: Mapping[str, object]) -> list[Mapping[str, object]]:
    listed = row.get("answers")
    return [answer for answer in listed if isinstance(answer, dict)] if isinstance(listed, list) else []


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _names(value: object) -> list[str]:
    return [str(name) for name in value if str(name).strip()] if isinstance(value, list) else []


def _score(answer: Mapping[str, object]) -> float:
    score = answer.get("score")
    return float(score) if isinstance(score, int | float) else 0.0
