"""What must hold for any batch, label set and chunk size, for every kind of model."""

from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from .strategies import WORDS, Property, batches, documents, label_names

KINDS = ("caml", "laat", "swem", "plant", "leam", "tfidf_linear", "interaction_caml", "hybrid")


@cache
def models() -> dict:
    from .. import tiny

    return {name: make() for name, make in tiny.CLASSIFIERS.items()}


def forward(folder: Path):
    """Every model takes any batch: scores are finite, of the right shape, blind to what the mask hides."""
    import torch

    names = list(models())

    def check(case) -> None:
        (ids, mask), number = case
        model = models()[names[number % len(names)]]
        ids, mask = torch.from_numpy(ids), torch.from_numpy(mask)
        with torch.no_grad():
            try:
                scores = model(ids, mask).logits
            except ValueError:
                return
            again = model(torch.where(mask.bool(), ids, 7), mask).logits
        assert scores.shape == (len(ids), 5) and scores.isfinite().all(), names[number % len(names)]
        torch.testing.assert_close(again, scores, rtol=1e-4, atol=1e-5, msg=names[number % len(names)])

    return check


def any_chunk_size(folder: Path):
    """Any chunk size of any model: the same text has finite scores; sizes below one are refused."""
    from hf_labelattn import Predictor
    from hf_labelattn.data.tokenization import word_tokenizer

    from .. import tiny

    tokenizer = word_tokenizer(WORDS)

    def check(case) -> None:
        text, name, size = case
        try:
            model = tiny.CLASSIFIERS[name](chunk_size=size)
            scores = Predictor(model, tokenizer, device="cpu").scores([text, ""])
        except ValueError as error:
            assert size < 1 and "chunk_size" in str(error), error
            return
        assert size >= 1 and np.isfinite(scores).all() and scores.shape == (2, 5)

    return check


def any_labels(folder: Path):
    """A model of any label names is saved, read back, described on a card, and predicts those names."""
    from hf_labelattn import Predictor, card_from_folder, save_whole
    from hf_labelattn.data.tokenization import word_tokenizer

    from .. import tiny

    tokenizer = word_tokenizer(WORDS)

    def check(case) -> None:
        names, kind = case
        fields = {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}
        save_whole(folder / "labels", tiny.CLASSIFIERS[kind](len(names), **fields), tokenizer)
        predictor = Predictor(str(folder / "labels"), device="cpu")
        found = predictor.predict(["wordaa wordba"], top_k=len(names))[0]
        assert {prediction.label for prediction in found} == set(names)
        assert len(str(card_from_folder(folder / "labels"))) > 500

    return check


def sizes(folder: Path):
    """One label and 20,000, of every kind of model."""
    import torch

    from .. import tiny

    def check(case) -> None:
        count, name = case
        ids, mask = tiny.documents((9,))
        with torch.no_grad():
            scores = tiny.CLASSIFIERS[name](count)(ids, mask).logits
        assert scores.shape == (1, count) and scores.isfinite().all()

    return check


def fit_linear_model(folder: Path):
    """Any documents and labels, empty ones too: the linear model has finite scores."""
    import torch

    from hf_labelattn import TfidfLinearConfig, fit_tfidf_linear
    from hf_labelattn.data.documents import ragged

    from .. import tiny

    def check(case) -> None:
        rows, labels = case
        tokens = ragged([np.array([2 + i % 50 for i in row], dtype=np.int64) for row, _ in rows])
        truth = ragged([np.array(sorted({i % labels for i in found}), dtype=np.int64) for _, found in rows])
        config = TfidfLinearConfig(vocab_size=tiny.VOCAB, num_labels=labels)
        try:
            model = fit_tfidf_linear(tokens, truth, config, n_jobs=1, progress=False)
        except ValueError as error:
            assert not any(row for row, _ in rows) or not any(found for _, found in rows), error
            return
        ids, mask = tiny.documents((5, 0))
        with torch.no_grad():
            assert model(ids, mask).logits.isfinite().all()

    return check


def rank_any_words(folder: Path):
    """Any documents and labels: relevance is positive, best first; a ranker of it has finite scores."""
    import torch

    from hf_labelattn import (
        RankingArguments,
        RelevanceCounter,
        TokenRankerConfig,
        TokenRankerModel,
        TokenRelevance,
        train_token_ranker,
    )

    def check(case) -> None:
        rows, labels = case
        counter = RelevanceCounter(60, labels, [0, 1])
        for row, found in rows:
            counter.add([i % 60 for i in row], [i % labels for i in found])
        relevance = counter.relevance(top_k=5)
        relevance.save(folder / "relevance.safetensors")
        again = TokenRelevance.load(folder / "relevance.safetensors")
        for label in range(labels):
            tokens, values = again.row(label)
            assert (values > 0).all() and (np.diff(values) <= 0).all() and not set(tokens) & {0, 1}
        model = TokenRankerModel(TokenRankerConfig(vocab_size=60, num_labels=labels, embedding_size=4, hidden_size=4))
        args = RankingArguments(ranking_epochs=1, ndcg_k=2)
        try:
            train_token_ranker(model, again, args, [0, 1], progress=False)
        except ValueError as error:
            assert not len(again.values), error
            return
        assert all(torch.isfinite(p).all() for p in model.parameters())

    return check


ROW = st.tuples(st.lists(st.integers(0, 99), max_size=8), st.lists(st.integers(0, 9), max_size=3))
LABELLED = st.lists(ROW, min_size=1, max_size=8)
COUNTED = st.tuples(LABELLED, st.integers(1, 5))
CHUNKS = st.tuples(documents(), st.sampled_from(KINDS), st.one_of(st.integers(-2, 40), st.just(4096)))
ALL = {
    "forward": Property(st.tuples(batches(), st.integers(0, 100)), forward, 2),
    "any_chunk_size": Property(CHUNKS, any_chunk_size),
    "any_labels": Property(st.tuples(label_names(5), st.sampled_from(KINDS)), any_labels, 0.4),
    "fit_linear_model": Property(COUNTED, fit_linear_model, 0.5),
    "rank_any_words": Property(COUNTED, rank_any_words, 0.3),
    "sizes": Property(st.tuples(st.sampled_from([1, 20_000]), st.sampled_from(KINDS)), sizes, 0.12),
}
