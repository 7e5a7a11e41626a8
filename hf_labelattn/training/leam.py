"""LEAM before its training: words and labels start from word vectors, biases at the training frequencies."""

from ..data.description_vectors import description_vectors, load_vector_table
from ..models.configuration_leam import LEAMConfig
from ..models.modeling_leam import LEAMForSequenceClassification
from .experiment import PreparedData
from .starting_points import set_label_prior

# Documents from which, with one softmax for all labels, a random kernel was better on dev than a sharp one.
ENOUGH_FOR_RANDOM = 5_000


def new_leam(
    data: PreparedData,
    word_vectors: str | None = None,
    single_label: bool = False,
    label_prior: bool = True,
    **overrides,
) -> LEAMForSequenceClassification:
    """LEAM for these data.

    Args:
        data: The documents.
        word_vectors: GloVe, word2vec or npy vectors that words and, through their descriptions, labels start from.
        single_label: Each document has exactly one label.
        label_prior: Whether label biases start at the training frequencies (of several labels only).
        **overrides: Fields of [`LEAMConfig`]. With one label per document `sharpness` is 0 by default where there are
            thousands of documents.
    """
    fields = {**data.config_fields(single_label), **overrides}
    if single_label and overrides.get("pooling", "max") == "max" and len(data.splits["train"]) >= ENOUGH_FOR_RANDOM:
        fields.setdefault("sharpness", 0)
    if word_vectors is None:
        model = LEAMForSequenceClassification(LEAMConfig(**fields))
    else:
        vectors, table = load_vector_table(word_vectors, data.tokenizer)
        fields.setdefault("embedding_size", vectors.dimensions)
        model = LEAMForSequenceClassification(LEAMConfig(**fields))
        model.set_word_vectors(table)
        found = model.set_label_embeddings(description_vectors(data.labels.descriptions, data.tokenizer, vectors))
        print(f"{found:,} of {data.labels.num_labels:,} labels start from the words of their description")
    if label_prior and not single_label:
        set_label_prior(model, data.counts, len(data.splits["train"]))
    return model


def phrase_rate(config: LEAMConfig, learning_rate: float) -> dict[str, float]:
    """A lower rate for a kernel that starts sharp: all its weights move one score.

    With a softmax per label they take together the step of one weight; with one softmax, a tenth of the rate each was
    better on dev, with few documents and with many.
    """
    if not (config.phrase_conv and config.sharpness):
        return {}
    return {"phrase_weight": learning_rate / (2 * config.window + 1 if config.pooling == "label" else 10)}
