"""A hashing embedder: no weights, no training, the same vectors everywhere. Texts that share words are close."""

import re
import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from rag.data import Vectors

_WORD = re.compile(r"\w+")
_NGRAM_SHARE = 0.3  # of a word's weight, spread over its character n-grams, so that "invoice" is near "invoices"


class HashingEmbedder:
    """Words and their character trigrams, hashed with a sign into `dim` buckets.

    Source: Weinberger et al., Feature Hashing for Large Scale Multitask Learning, ICML 2009.
    """

    def __init__(self, dim: int = 256) -> None:
        if dim < 64:
            raise ValueError(f"dim is {dim}; fewer than 64 buckets collide too often to mean anything")
        self._dim = dim

    @property
    def dim(self) -> int:
        return self._dim

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, dim), row i for texts[i]; a text without words gets the same vector as the empty one."""
        vectors = np.zeros((len(texts), self._dim), dtype=np.float64)
        for place, text in enumerate(texts):
            for feature, weight in _features(text).items():
                hashed = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
                vectors[place, (hashed >> 1) % self._dim] += weight if hashed & 1 else -weight
            if not vectors[place].any():
                vectors[place, 0] = 1.0
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors.astype(np.float32)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The same vectors as for passages."""
        return self.embed_passages(texts)


def _features(text: str) -> dict[str, float]:
    words = Counter(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))
    features: defaultdict[str, float] = defaultdict(float)
    for word, count in words.items():
        # Repeated words count less each time; short words are mostly function words.
        weight = (1.0 + float(np.log(count))) * min(len(word), 6) / 6
        features[f"word {word}"] += weight
        framed = f"<{word}>"
        ngrams = [framed[start : start + 3] for start in range(len(framed) - 2)]
        for ngram in ngrams:
            features[f"ngram {ngram}"] += _NGRAM_SHARE * weight / len(ngrams) ** 0.5
    return features
