"""The embedded corpus: honest evidence, no leaks between splits, the promised sizes and difficulty."""

import re
import time
from collections import Counter

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from sklearn.metrics import f1_score

from hf_labelattn.data.codes import describe_icd
from hf_labelattn.data.synthetic import count_words, synthetic_label_descriptions, synthetic_notes
from hf_labelattn.data.synthetic_lexicon import FORMS, build_lexicon, surface_forms
from hf_labelattn.data.synthetic_statistics import (
    best_threshold,
    corpus_statistics,
    exact_match_f1,
    format_statistics,
    linear_model_f1,
)

NUM_LABELS = 300


@pytest.fixture(scope="module")
def notes():
    return synthetic_notes(500, seed=3, num_labels=NUM_LABELS)


@pytest.fixture(scope="module")
def rows(notes):
    return [row for split in notes.values() for row in split]


@pytest.fixture(scope="module")
def all_labels():
    """The labels of the corpus in its full size, in notes that say little else."""
    return {split: part["labels"][:] for split, part in synthetic_notes(length_scale=0.01).items()}


@pytest.fixture(scope="module")
def conditions():
    return {condition.code: condition for condition in build_lexicon(NUM_LABELS).conditions}


def test_splits_have_their_shares_and_share_no_patient(notes):
    assert {split: len(part) for split, part in notes.items()} == pytest.approx(
        {"train": 375, "validation": 50, "test": 75}, abs=4
    )
    groups = [set(split["group"]) for split in notes.values()]
    assert len(set.union(*groups)) == sum(map(len, groups))
    assert notes["train"].column_names == ["id", "group", "text", "labels", "evidence"]


def test_ids_are_unique_and_some_patients_come_back(rows):
    assert len({row["id"] for row in rows}) == len(rows)
    stays = Counter(row["group"] for row in rows)
    assert 0.15 < sum(count > 1 for count in stays.values()) / len(stays) < 0.45


def test_chronic_codes_come_back_with_their_patient(rows):
    by_patient = {}
    for row in rows:
        by_patient.setdefault(row["group"], []).append(set(row["labels"]))
    pairs = [stays[:2] for stays in by_patient.values() if len(stays) > 1]
    same = np.mean([len(a & b) / min(len(a), len(b)) for a, b in pairs])
    other = np.mean([len(pairs[i][0] & pairs[i - 1][1]) / len(pairs[i][0]) for i in range(len(pairs))])
    assert same > 1.5 * other


def test_the_seed_decides_everything():
    sizes = {"num_documents": 30, "num_labels": NUM_LABELS, "length_scale": 0.3}
    first, again, other = (synthetic_notes(seed=seed, **sizes) for seed in (0, 0, 1))
    for split in first:
        assert first[split].to_dict() == again[split].to_dict()
    assert first["train"]["text"][0] != other["train"]["text"][0]


def test_every_label_has_evidence_and_evidence_only_labels(rows):
    for row in rows:
        assert {span["label"] for span in row["evidence"]} == set(row["labels"])
        assert len(row["labels"]) == len(set(row["labels"]))


def test_evidence_spans_are_the_words_that_mean_the_code(rows, conditions):
    for row in rows:
        for span in row["evidence"]:
            condition = conditions[span["label"]]
            ways = {way for form in condition.forms for way in form}
            ways |= {*condition.drugs, *condition.procedures, *condition.findings}
            assert row["text"][span["start"] : span["end"]] in ways


def test_all_forms_of_mention_occur(rows, conditions):
    used = Counter()
    for row in rows:
        for span in row["evidence"]:
            condition, mention = conditions[span["label"]], row["text"][span["start"] : span["end"]]
            forms = [name for name, ways in zip(FORMS, condition.forms, strict=True) if mention in ways]
            used[forms[0] if forms else "drug" if mention in condition.drugs else "other sign"] += 1
    assert all(used[form] > 0.05 * used.total() for form in (*FORMS, "drug", "other sign")), used


def test_every_named_distractor_stands_outside_the_evidence(rows, conditions):
    distracted = 0
    for row in rows:
        for code in conditions.keys() - set(row["labels"]):
            distracted += conditions[code].description in row["text"]
    assert distracted > len(rows) / 2


def test_no_title_of_a_true_code_is_left_out_of_the_evidence(rows, conditions):
    for row in rows[:200]:
        mentions = {(span["start"], span["end"]) for span in row["evidence"]}
        for code in row["labels"]:
            for found in re.finditer(re.escape(conditions[code].description), row["text"]):
                assert any(start <= found.start() and found.end() <= end for start, end in mentions)


def test_a_note_holds_one_code_of_a_category_and_none_of_the_other_sex(rows, conditions):
    for row in rows:
        categories = [conditions[code].category for code in row["labels"]]
        assert len(categories) == len(set(categories))
        sex = "M" if "Sex: M" in row["text"] else "F"
        assert all(conditions[code].sex in ("", sex) for code in row["labels"])


def test_sizes_follow_mimic_iv(rows):
    words = np.percentile([count_words(row["text"]) for row in rows], [25, 50, 75])
    codes = np.percentile([len(row["labels"]) for row in rows], [25, 50, 75])
    np.testing.assert_allclose(words, [1147, 1490, 1931], rtol=0.08)
    np.testing.assert_allclose(codes, [9, 14, 20], atol=1.5)


def test_codes_keep_company(all_labels):
    notes = [set(labels) for split in all_labels.values() for labels in split]
    for a, b, excess in (("N18.6", "Z99.2", 1.5), ("K70.30", "R18.8", 2.5), ("A41.9", "R65.20", 2)):
        share_a, share_b = (np.mean([code in labels for labels in notes]) for code in (a, b))
        assert np.mean([{a, b} <= labels for labels in notes]) > excess * share_a * share_b


def test_labels_have_a_long_tail(all_labels):
    counts = {split: Counter(label for labels in part for label in labels) for split, part in all_labels.items()}
    labels = set().union(*counts.values())
    assert np.mean([counts["train"][label] < 10 for label in labels]) > 0.5
    assert len(labels - counts["train"].keys()) >= 5 and counts["test"].keys() - counts["train"].keys()
    assert counts["train"].most_common(1)[0][1] > 0.2 * len(all_labels["train"])


def test_names_and_dates_are_placeholders(rows):
    assert all(row["text"].startswith("Name: ___    Unit No: ___") for row in rows)


def test_small_corpora_fill_all_splits():
    for seed in range(8):
        tiny = synthetic_notes(10, seed=seed, num_labels=5, length_scale=0.05)
        assert min(map(len, tiny.values())) > 0 and sum(map(len, tiny.values())) == 10


def test_notes_for_a_quick_demo_are_short(conditions):
    short = synthetic_notes(100, num_labels=NUM_LABELS, length_scale=0.3, codes_per_note=5)["train"]
    assert np.median([count_words(text) for text in short["text"]]) == pytest.approx(450, rel=0.2)
    assert np.median([len(labels) for labels in short["labels"]]) == pytest.approx(5, abs=1)


def test_descriptions_cover_the_pool_and_small_pools_are_part_of_large_ones(rows):
    descriptions = synthetic_label_descriptions(NUM_LABELS)
    assert len(descriptions) == NUM_LABELS and list(descriptions) == sorted(descriptions)
    assert {label for row in rows for label in row["labels"]} <= descriptions.keys()
    assert synthetic_label_descriptions(50).items() <= descriptions.items()
    assert all(describe_icd(code, "icd10").text == text for code, text in descriptions.items())


@pytest.mark.parametrize(
    "sizes, message",
    [
        ({"num_documents": 3}, "`num_documents=3`, expected at least 10"),
        ({"num_labels": 2}, "`num_labels=2`, expected at least 5"),
        ({"num_labels": 10**6}, "`num_labels=1000000`, expected at most"),
        ({"length_scale": 0}, "`length_scale=0`"),
        ({"test_fraction": 0.95}, "leave something to train on"),
    ],
)
def test_impossible_sizes_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        synthetic_notes(**sizes)


def test_generation_is_fast():
    build_lexicon(NUM_LABELS)
    start = time.process_time()
    synthetic_notes(300, num_labels=NUM_LABELS)
    assert 300 / (time.process_time() - start) > 300


def test_surface_forms_of_a_rare_code():
    title, term = "Fracture of left femur, unspecified", "Broken femur NOS"
    description, inclusion, short, reordered = surface_forms(title, (term,), ())
    assert description == (title, title.lower())
    assert (inclusion, short, reordered) == (("broken femur",), ("fx L femur",), ("left femur fracture",))


def test_the_corpus_is_neither_trivial_nor_hopeless(notes):
    figures = corpus_statistics(notes, synthetic_label_descriptions(NUM_LABELS))
    assert 0.1 < figures["exact_match_f1_micro"] < 0.75
    assert 0.35 < figures["linear_f1_micro"] < 0.75
    assert 0.2 < figures["share_labels_under_10_train"] < 1
    assert 1.5 < figures["evidence_spans_per_label"] < 3
    assert figures["num_documents"] == 500 and figures["num_labels"] <= NUM_LABELS


def test_figures_count_what_they_say():
    split = {"text": ["one two 3", "four"], "labels": [["a"], ["a", "b"]]}
    unseen = {"text": ["five six"], "labels": [["c"]]}
    corpus = DatasetDict({"train": Dataset.from_dict(split), "test": Dataset.from_dict(unseen)})
    figures = corpus_statistics(corpus, linear_model=False)
    assert figures["num_documents"] == 3 and figures["num_train"] == 2
    assert figures["words_median"] == 2 and figures["labels_median"] == 1
    assert figures["num_labels"] == 3 and figures["num_labels_test_unseen_in_train"] == 1
    assert figures["share_labels_under_10_train"] == 1.0
    assert len(format_statistics(figures).splitlines()) == len(figures)


def test_exact_match_ignores_case_and_punctuation_but_not_word_ends():
    split = {"text": ["Essential (Primary) hypertension.", "goutweed"], "labels": [["I10"], ["M10"]]}
    descriptions = {"I10": "essential primary hypertension", "M10": "gout"}
    assert exact_match_f1(split, descriptions) == pytest.approx(2 * 1 / (1 + 2))


def test_the_best_threshold_is_the_best_of_all():
    rng = np.random.default_rng(0)
    scores = rng.integers(-5, 5, (40, 6)).astype(float)
    targets = scores + rng.normal(0, 3, scores.shape) > 1
    candidates = [f1_score(targets, scores > t, average="micro", zero_division=0) for t in np.arange(-6, 6, 0.5)]
    chosen = f1_score(targets, scores > best_threshold(scores, targets), average="micro")
    assert chosen == pytest.approx(max(candidates))


def test_the_linear_model_learns_words_and_misses_unseen_labels():
    texts = {"a": "alpha words here", "b": "beta words there", "c": "gamma nothing"}
    train = {"text": [texts[x] for x in "ab" * 10], "labels": [[x] for x in "ab" * 10]}
    test = {"text": [texts[x] for x in "abc"], "labels": [["a"], ["b"], ["c"]]}
    corpus = DatasetDict(
        {"train": Dataset.from_dict(train), "validation": Dataset.from_dict(train), "test": Dataset.from_dict(test)}
    )
    assert linear_model_f1(corpus) == pytest.approx(2 * 2 / (2 + 3))
