"""Models that read words, beside a part that may read pieces of words: their second tokenizer."""

from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.utils import cached_file

from .functional_matching import surface_hashes

MATCH_TOKENIZER_FILE = "tokenizer_match.json"


def load_match_tokenizer(folder: str) -> PreTrainedTokenizerFast:
    """The tokenizer of a matcher that does not read the base's tokens; saved beside the model, or on the Hub."""
    file = cached_file(folder, MATCH_TOKENIZER_FILE)
    options = {"unk_token": "[UNK]", "pad_token": "[PAD]", "split_special_tokens": True}
    try:
        return PreTrainedTokenizerFast(tokenizer_file=file, **options)
    except Exception as error:  # tokenizers raises nothing more exact
        raise ValueError(f"{file} is damaged") from error


class ReadsWords:
    """What such models share; their config has `match_vocab_size` and `unk_token_id`."""

    def match_tokenizer(self, tokenizer: PreTrainedTokenizerBase | None = None) -> PreTrainedTokenizerBase:
        """The given tokenizer, or the one saved beside this model for its words."""
        if tokenizer is not None:
            return tokenizer
        try:
            if self.config.match_vocab_size is not None:
                return load_match_tokenizer(self.config.name_or_path)
            return AutoTokenizer.from_pretrained(self.config.name_or_path)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"No tokenizer was given, and none can be read from {self.config.name_or_path!r}. Pass "
                "`tokenizer=`, or copy it there."
            ) from error

    def text_keys(self, texts: list[str], tokenizer=None) -> list[list[int]]:
        """The words of texts as a matcher sees them: ids, and minus the hash of words outside the vocabulary."""
        encoded = self.match_tokenizer(tokenizer)(texts, add_special_tokens=False, return_offsets_mapping=True)
        unknown = self.config.unk_token_id
        keys = []
        for text, ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
            hashes = surface_hashes(text, ids, offsets, unknown)
            keys.append([-h if h else i for i, h in zip(ids, hashes, strict=True)])
        return keys
