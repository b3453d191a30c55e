from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from rag.config import RerankConfig
from rag.errors import ModelError
from rag.models import resolve
from rag.rerank.late_interaction import (
    LateInteractionReranker,
    PassageCache,
    TokenStates,
    late_interaction,
    rarities,
    together,
)
from tests.tiny_models import tiny_encoder

CONFIG = RerankConfig(num_threads=1, device="cpu", max_tokens=64, batch_tokens=256)
QUESTION = "how many days of leave"
PASSAGES = ["an employee has two days", "", "the travel policy " * 40, "Zebra 42!", "more work"]
DEFAULT_MODELS = Path("var/models")


def states(*rows: tuple[int, list[float]]) -> TokenStates:
    return TokenStates(tuple(token for token, _ in rows), np.asarray([row for _, row in rows], dtype=np.float32))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def reranker(directory: Path) -> LateInteractionReranker:
    return LateInteractionReranker(directory, CONFIG)


def test_a_passage_scores_the_squared_cosine_of_its_nearest_token_and_shares_in_its_neighbours() -> None:
    question = states((7, [2.0, 0.0]))
    # Their means are (1, 0) and (-1, 0): nothing is common, and each is the only neighbour of the other.
    passages = [states((7, [1.0, 0.0])), states((8, [-1.0, 0.0]))]
    # The second, which is met by nothing, shares in the first.
    assert late_interaction(question, passages) == [pytest.approx(0.5), pytest.approx(0.5)]
    # Without neighbours it is its own alone; what the only passage has in common with itself is its mean.
    alone = [states((7, [3.0, 1.0]), (8, [1.0, -1.0]))]
    assert late_interaction(states((7, [3.0, 0.0])), alone) == [pytest.approx(0.5)]


def test_tokens_that_few_passages_hold_weigh_more() -> None:
    passages = [states((1, [1.0]), (2, [1.0])), states((1, [1.0])), states((1, [1.0]))]
    everywhere, once, nowhere = rarities([1, 2, 3], passages)
    assert everywhere < once < nowhere
    assert everywhere + once + nowhere == pytest.approx(1.0)


def test_scores_come_in_the_order_of_the_passages(reranker: LateInteractionReranker) -> None:
    scores = reranker.score(QUESTION, PASSAGES)
    turned = reranker.score(QUESTION, PASSAGES[::-1])
    np.testing.assert_allclose(scores, turned[::-1], atol=1e-5)
    assert np.ptp(scores) > 0.01
    assert max(scores) <= 1.0


def test_nothing_in_nothing_out_and_a_question_without_words_scores_zero(reranker: LateInteractionReranker) -> None:
    assert reranker.score(QUESTION, []) == []
    assert reranker.score_many([(QUESTION, []), ("who", [])]) == [[], []]
    assert reranker.score("", PASSAGES) == [0.0] * len(PASSAGES)


def test_a_question_keeps_every_bit_of_its_scores_in_any_company(reranker: LateInteractionReranker) -> None:
    together = reranker.score_many([("who", PASSAGES[:2]), (QUESTION, PASSAGES), (QUESTION, PASSAGES[1:])])
    assert together[1] == reranker.score(QUESTION, PASSAGES)
    assert together[2] == reranker.score(QUESTION, PASSAGES[1:])


def test_a_passage_that_was_read_lately_is_not_read_again_and_scores_the_same_bits(
    directory: Path, reranker: LateInteractionReranker
) -> None:
    first = reranker.score(QUESTION, PASSAGES)
    reranker.score("who", PASSAGES)
    assert reranker.score(QUESTION, PASSAGES) == first
    assert reranker.num_truncated == 1  # read once
    without = LateInteractionReranker(directory, CONFIG.model_copy(update={"cache_mb": 0}))
    assert without.score(QUESTION, PASSAGES) == first == without.score(QUESTION, PASSAGES)
    assert without.num_truncated == 2


def test_the_cache_forgets_what_was_not_used_for_longest() -> None:
    cache = PassageCache(max_bytes=8)
    cache.put("a", states((1, [1.0])))
    cache.put("b", states((2, [1.0])))
    assert cache.get("a") is not None
    cache.put("c", states((3, [1.0])))
    assert cache.get("b") is None
    assert cache.get("a") is not None
    assert cache.get("c") is not None


def test_both_engines_agree_and_cut_passages_are_counted(directory: Path, reranker: LateInteractionReranker) -> None:
    in_torch = LateInteractionReranker(directory, CONFIG.model_copy(update={"engine": "torch"}))
    scores = reranker.score(QUESTION, PASSAGES)
    np.testing.assert_allclose(scores, in_torch.score(QUESTION, PASSAGES), atol=0.08)
    assert reranker.num_truncated == in_torch.num_truncated == 1


def test_a_directory_without_an_encoder_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no encoder"):
        LateInteractionReranker(tmp_path, CONFIG)


@pytest.mark.models
def test_the_default_reranker_puts_the_answer_first() -> None:
    reranker = LateInteractionReranker(resolve("all-MiniLM-L6-v2", DEFAULT_MODELS), RerankConfig(device="cpu"))
    passages = [
        "Berlin has been the seat of the German parliament since 1999.",
        "Paris is the capital and largest city of France.",
        "The capital of a company is the money its owners put in.",
    ]
    assert int(np.argmax(reranker.score("What is the capital of France?", passages))) == 1


def test_the_threads_of_matrix_products_do_not_show_in_the_scores() -> None:
    random = np.random.default_rng(0)

    def text(num_tokens: int) -> TokenStates:
        return TokenStates(tuple(range(num_tokens)), random.normal(size=(num_tokens, 384)).astype(np.float32))

    question, passages = text(24), [text(200) for _ in range(12)]
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(late_interaction(question, passages))
    assert found[0] == found[1]


def test_tokens_that_stand_together_as_in_the_question_count() -> None:
    weights = np.full(2, 0.5, dtype=np.float32)
    near, far, one_alone, swapped = (
        TokenStates(ids, np.zeros((len(ids), 2), np.float32))
        for ids in ((7, 8, *[0] * 18), (7, *[0] * 18, 8), (7, *[0] * 19), (*[0] * 18, 8, 7))
    )
    scores = together((7, 8), weights, [near, far, one_alone, swapped])
    assert scores[0] == scores[3] > 0.0
    assert scores[1] == scores[2] == 0.0
    assert together((7, 7), weights, [near]) == [0.0]
    twice = TokenStates((7, 8, *[0] * 10, 7, 8, *[0] * 6), np.zeros((20, 2), np.float32))
    assert scores[0] < together((7, 8), weights, [near, twice])[1] < 2 * scores[0]


def test_a_match_at_the_beginning_counts_more() -> None:
    draw = np.random.default_rng(0)
    states = {token: draw.standard_normal(8).astype(np.float32) for token in range(40)}
    question = TokenStates((1,), np.stack([states[1]]))
    others = list(range(2, 32))

    def passage(ids: list[int]) -> TokenStates:
        return TokenStates(tuple(ids), np.stack([states[token] for token in ids]))

    first, last, without = late_interaction(question, [passage([1, *others]), passage([*others, 1]), passage(others)])
    assert first > last > without
