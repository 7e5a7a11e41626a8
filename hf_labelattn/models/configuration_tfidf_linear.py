"""Configuration of the linear classifier on TF-IDF."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_base import LabelClassifierConfig


@strict
class TfidfLinearConfig(LabelClassifierConfig):
    r"""Configuration of [`TfidfLinearForMultiLabel`]. The fit reads the options and writes the sizes.

    Args:
        unk_token_id: Id of the unknown word. It is no feature, and no bigram reaches across it.
        max_ngram: 1 counts words, 2 also counts pairs of neighbouring words.
        sublinear_tf: Use 1 + ln(count) instead of the count of a word.
        bigram_weight: Factor on the idf of bigrams. 1 is scikit-learn's; less keeps many rare bigrams from drowning
            the words.
        min_df: Training documents a word or bigram must occur in to be a feature.
        C: Inverse strength of the regularisation, as in scikit-learn's `LinearSVC`.
        prune_below: Weights of smaller magnitude are not kept; 0 keeps all.
        calibration: What turns scores into logits on the development split: one scale and offset for all labels
            ("global"), one pair per label drawn towards the global one ("label"), or nothing ("none").
        calibration_strength: How strongly a label's scale and offset are drawn towards the global ones.
        num_bigrams: Bigrams in the table (written by the fit).
        num_weights: Weights kept (written by the fit).
    """

    model_type = "tfidf_linear"

    unk_token_id: int | None = 1
    max_ngram: int = 2
    sublinear_tf: bool = True
    bigram_weight: float | int = 0.7
    min_df: int = 2
    C: float | int = 1.0
    prune_below: float | int = 0.01
    calibration: Literal["global", "label", "none"] = "global"
    calibration_strength: float | int = 10.0
    num_bigrams: int = 0
    num_weights: int = 0

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        if self.max_ngram not in (1, 2):
            raise ValueError(f"`max_ngram` is {self.max_ngram}, but must be 1 (words) or 2 (words and bigrams).")
        if self.min_df < 1:
            raise ValueError(f"`min_df` is {self.min_df}, but must be at least 1 document.")
        if self.prune_below < 0:
            raise ValueError(f"`prune_below` is {self.prune_below}, but must be 0 or more.")
        for name in ("C", "bigram_weight", "calibration_strength"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` is {getattr(self, name)}, but must be above 0.")

    @property
    def num_features(self) -> int:
        """Words, then bigrams."""
        return self.vocab_size + self.num_bigrams

    @property
    def num_calibrated(self) -> int:
        """Scales and offsets: one for all labels, or one each."""
        return self.num_labels if self.calibration == "label" else 1
