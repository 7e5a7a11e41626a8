"""Configuration of LEAM: words and labels embedded in one space."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_base import LabelClassifierConfig

PhraseConvolution = Literal["shared", "depthwise", "full"]
Pooling = Literal["max", "label"]
# A kernel from every label to every other grows with the square of the labels; beyond this it is a mistake.
LARGEST_FULL_KERNEL = 2**27


@strict
class LEAMConfig(LabelClassifierConfig):
    r"""Configuration of [`LEAMForSequenceClassification`].

    Args:
        embedding_size: Dimensions of the space that words and labels share (paper: 300).
        phrase_conv: How the similarities of neighbouring words become the score of a phrase (eq. 3). `"shared"`: one
            kernel for all labels (the paper's text). `"depthwise"`: one kernel per label. `"full"`: every label's
            score sees every label's similarities (the authors' code; labels² × width parameters). None: no phrases,
            the similarity is the score ("LEAM (linear)" in the paper).
        window: r, words on each side of a phrase's centre (paper: about 50 is safe; the authors' code 27).
        sharpness: What the similarity of a phrase's middle word is multiplied by at the start of training (its
            neighbours by 0). At 1 the softmax over cosines is all but even, however well a word fits a label. 0 for a
            random kernel, which needs thousands of documents (with max pooling `run_leam.py` then takes it). By
            default 5 with label pooling and 1 with max pooling, each better on dev where it holds.
        pooling: `"max"`: a word weighs as much as its best label says, and the document has one vector (eq. 4-6).
            `"label"`: one softmax over words and one vector per label (the authors' clinical code). By default
            `"label"` for multi-label problems and `"max"` for single-label ones.
        encoder: `"identity"`: words are their embeddings. `"cnn"`: a ReLU convolution first (the clinical code).
        encoder_width: Words under one filter of that convolution.
        classifier_hidden_size: Units of the hidden ReLU layer of f₂; 0 for the linear f₂ of eq. (7). The authors'
            code has 300 with max pooling and none with label pooling.
        classifier_dropout: On the input of f₂, and of its hidden layer.
        regulariser_weight: Weight of eq. (9), which asks f₂ to recognise the label embeddings; part of the training
            loss only. By default 1 for single-label problems and 0 for multi-label ones, as in the authors' code.
        cache_similarity: In evaluation, keep what each word of the vocabulary contributes (two vocabulary × labels
            tables) instead of computing it per document: the same logits without products over the dimensions. Used
            when the tables and a batch's scores fit `max_kernel_memory_mb`, with `encoder="identity"` and a linear
            f₂. Weight updates and `train()`/`eval()` renew it; edits through `.data` are seen after `eval()`.
    """

    model_type = "leam"

    embedding_size: int = 300
    phrase_conv: PhraseConvolution | None = "shared"
    window: int = 50
    sharpness: float | int | None = None
    pooling: Pooling | None = None
    encoder: Literal["identity", "cnn"] = "identity"
    encoder_width: int = 10
    classifier_hidden_size: int = 0
    classifier_dropout: float | int = 0.5
    regulariser_weight: float | int | None = None
    cache_similarity: bool = False

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        single = self.problem_type == "single_label_classification"
        if self.pooling is None:
            self.pooling = "max" if single else "label"
        if self.sharpness is None:
            self.sharpness = 1 if self.pooling == "max" else 5
        if self.regulariser_weight is None:
            self.regulariser_weight = 1.0 if single else 0.0
        self._check()

    def _check(self) -> None:
        if self.problem_type == "regression":
            raise ValueError(
                "`problem_type` is 'regression', but LEAM classifies: use 'single_label_classification' or "
                "'multi_label_classification'."
            )
        for name, least in (("embedding_size", 1), ("window", 0), ("encoder_width", 1), ("classifier_hidden_size", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` is {getattr(self, name)}, but must be at least {least}.")
        if self.sharpness < 0:
            raise ValueError(f"`sharpness` is {self.sharpness}, but must be at least 0.")
        if not 0 <= self.classifier_dropout < 1:
            raise ValueError(f"`classifier_dropout` is {self.classifier_dropout}, but must be from 0 to below 1.")
        if self.pooling == "label" and self.classifier_hidden_size:
            raise ValueError(
                f"`classifier_hidden_size` is {self.classifier_hidden_size}, but label pooling has one linear "
                "read-out per label: pass `classifier_hidden_size=0` or `pooling='max'`."
            )
        self._check_kernel()

    def _check_kernel(self) -> None:
        weights = self.num_labels**2 * (2 * self.window + 1)
        if self.phrase_conv == "full" and weights > LARGEST_FULL_KERNEL:
            raise ValueError(
                f"`phrase_conv='full'` needs {weights:,} weights for {self.num_labels:,} labels and `window="
                f"{self.window}`: use `phrase_conv='shared'` or `'depthwise'`, or a smaller window."
            )
