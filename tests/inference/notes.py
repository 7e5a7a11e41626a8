"""Small models that read words, for the tests of inference."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.inference.prediction import Predictor
from hf_labelattn.models.configuration_leam import LEAMConfig
from hf_labelattn.models.modeling_interaction import InteractionForMultiLabel
from hf_labelattn.models.modeling_leam import LEAMForSequenceClassification

from .. import tiny
from ..models.test_tfidf_linear import make_model as make_linear

WORDS = [f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(tiny.VOCAB - 2)]
DESCRIPTIONS = {"LABEL_0": f"{WORDS[3]} {WORDS[4]}", "LABEL_1": WORDS[10], "LABEL_2": f"{WORDS[5]} {WORDS[6]}"}


def words(*ids: int) -> str:
    """Text of the words with these token ids."""
    return " ".join(WORDS[i - 2] for i in ids)


def text(length: int, seed: int = 0) -> str:
    """Random words with capitals, punctuation, numbers and line ends between them."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, tiny.VOCAB, (length,), generator=generator).tolist()
    joints = [" ", ", ", ".\n", " 12 ", "\t", " – "]
    return "".join(words(i).title() + joints[(i + n) % len(joints)] for n, i in enumerate(ids))


def make_leam(pooling: str, **overrides) -> LEAMForSequenceClassification:
    sizes = {"vocab_size": tiny.VOCAB, "num_labels": 5, "embedding_size": 6, "window": 2, "pooling": pooling}
    return LEAMForSequenceClassification(LEAMConfig(**sizes, **overrides)).eval()


def make_interaction(preset: str = "caml") -> InteractionForMultiLabel:
    """A joint model in which two labels have no description."""
    model = InteractionForMultiLabel.from_base(tiny.CLASSIFIERS[preset](), match_embedding_size=16)
    model.set_label_descriptions(DESCRIPTIONS, word_tokenizer(WORDS))
    return model.eval()


def make_plant_with_prior():
    prior = make_linear()
    model = tiny.plant(prior_config=prior.config.to_dict())()
    model.prior.load_state_dict(prior.state_dict())
    return model.eval()


ALL = {
    **tiny.CLASSIFIERS,
    "plant_with_prior": make_plant_with_prior,
    "leam_label": lambda: make_leam("label"),
    "leam_max": lambda: make_leam("max", classifier_hidden_size=4),
    "tfidf": make_linear,
    "interaction_caml": make_interaction,
    "interaction_plant": lambda: make_interaction("plant"),
    "interaction_bert": lambda: make_interaction("plm_icd"),
}


def piece_tokenizer() -> PreTrainedTokenizerFast:
    """Word pieces with `[CLS]` and `[SEP]` around a text: every word is cut in two."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "fe", "##ver", "co", "##ugh", "as", "##thma"]
    vocabulary = {token: i for i, token in enumerate(names)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def make_predictor(name: str = "caml", **options) -> Predictor:
    return Predictor(ALL[name](), word_tokenizer(WORDS), device="cpu", **options)


def word_classifier(label_words: dict[str, int], strength: float = 40.0):
    """A mean-of-words model in which one word (its token id) makes each label."""
    names = list(label_words)
    fields = {"id2label": dict(enumerate(names)), "label2id": {n: i for i, n in enumerate(names)}}
    model = tiny.zoo("swem")(len(names), **fields)
    with torch.no_grad():
        model.embeddings.weight.zero_()
        model.attention.classifier.weight.zero_()
        model.attention.classifier.bias.fill_(-3.0)
        for i, token in enumerate(label_words.values()):
            model.embeddings.weight[token, i] = 1.0
            model.attention.classifier.weight[i, i] = strength
    return model
