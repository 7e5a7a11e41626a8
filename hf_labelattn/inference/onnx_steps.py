"""Models as one step from chunk to chunk, written so that ONNX can hold it: fixed width, no branch on the data.

A step takes `input_ids` and `attention_mask` `[B, T]` of the next chunk of each document, padding at the end of the
document only, the tokens read so far `[B]`, and the state; it gives the logits of all that was read, and the same
again for the next chunk. Whatever the model, everything starts as zeros. Reading chunk by chunk gives the logits of
reading whole, also for convolutions: words at the end of a chunk count only provisionally until their right
neighbours are known.
"""

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..models.encoders import same_convolution
from ..models.functional import label_chunks, label_scores, merge_pools
from .onnx_planted import PlantedChunk

State = tuple[Tensor, ...]
ANYTHING_ELSE = 'Or serve it as it is, with `pipeline("icd-coding", model=…)`.'


def chunk_step(model: nn.Module, width: int) -> "ChunkStep":
    """The step of a model for chunks of `width` tokens; refuses models that cannot go chunk by chunk."""
    config = model.config
    check_exportable(config)
    if config.model_type == "plant":
        return PlantStep(model, width)
    if config.encoder == "ngram_hash":
        return NgramStep(model, width)
    return ConvolutionStep(model, width) if config.encoder in ("cnn", "multires") else ZooStep(model, width)


def check_exportable(config) -> None:
    """Say why a model has no chunk step, and what to do."""
    kind = config.model_type
    if kind == "plant" and (config.direction == "backward" or config.backward_encoder_config is not None):
        forward = "Export a model trained with `--direction forward`; a run in both directions leaves one in forward/."
        problem = f"reads documents from their end. {forward}"
    elif kind == "plant" and config.prior_config is not None:
        problem = "has a linear prior, which needs the whole document. Export a model trained without `--prior`."
    elif kind == "interaction":
        problem = "searches the text for descriptions. Export the folder of its base model."
    elif kind == "label_attention" and config.max_chunks is not None:
        problem = "reads only the first chunks. Train it with `--overrides '{\"max_chunks\": null}'`."
    elif kind not in ("plant", "label_attention"):
        problem = f"(`model_type={kind!r}`) needs the whole document. Export a PLANT or label-attention model."
    elif kind == "label_attention" and config.encoder in ("gru", "lstm") and config.bidirectional:
        problem = "reads documents from both ends. Train it with `--overrides '{\"bidirectional\": false}'`."
    elif kind == "label_attention" and (config.attention == "dynamic_max" or config.attend_to_padding):
        cause = "attends to padding" if config.attend_to_padding else "pools over parts of the whole document"
        problem = f"{cause}. Export another preset, such as caml."
    else:
        return
    raise ValueError(f"There is no chunk step to export: this model {problem} {ANYTHING_ELSE}")


class ChunkStep(nn.Module):
    """Base of the steps. A kind of model defines `fresh` and `read`."""

    def __init__(self, model: nn.Module, width: int):
        super().__init__()
        self.model, self.width = model, width

    @abstractmethod
    def fresh(self, batch: int) -> State:
        """The state of an unread document, batch first."""

    @abstractmethod
    def read(self, ids: Tensor, mask: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits `[B, L]` with another chunk, and the state."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, num_tokens: Tensor, *state: Tensor) -> State:
        fresh = self.fresh(input_ids.shape[0])
        state = tuple(_started(num_tokens > 0, *pair) for pair in zip(state, fresh, strict=True))
        logits, state = self.read(input_ids, attention_mask.bool(), state)
        return logits.float(), num_tokens + attention_mask.sum(1), *state


def _started(read: Tensor, given: Tensor, fresh: Tensor) -> Tensor:
    """The state given for documents that were `read` `[B]` before, the fresh one for others; flags start as given."""
    if given.dtype == torch.bool:
        return given
    return torch.where(read.view(-1, *[1] * (given.dim() - 1)), given, fresh)


def read_transformer(encoder: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    """Token states of one chunk per document; zeros for a chunk of padding, which some encoders turn into NaN."""
    hidden = encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return torch.where(mask.any(1)[:, None, None], hidden, 0.0)


class PlantStep(ChunkStep):
    """PLANT that reads forward: the memory of the LSTM (none for a transformer) and the label state."""

    def __init__(self, model: nn.Module, width: int):
        super().__init__(model, width)
        self.reader, self.planted = model.reader, PlantedChunk(model.reader.decoder, width)
        self.carries = self.reader.recurrent and model.config.state != "none"
        self.num_memory = 2 * len(self.reader.encoder.layers) if self.carries else 0

    def fresh(self, batch: int) -> State:
        memory = []
        if self.carries:
            sizes = [layer.hidden_size for layer in self.reader.encoder.layers for _ in range(2)]
            memory = [torch.zeros(batch, size) for size in sizes]
        return *memory, *self.reader.start(batch)

    def read(self, ids: Tensor, mask: Tensor, state: State) -> tuple[Tensor, State]:
        hidden, memory = self._encode(ids, mask, state[: self.num_memory])
        scores = self.planted(hidden, ids, mask)[:, None]
        labels = self.reader.fold(state[self.num_memory :], scores, mask.any(1, keepdim=True))
        return self.reader.logits(labels), (*memory, *labels)

    def _encode(self, ids: Tensor, mask: Tensor, memory: State) -> tuple[Tensor, State]:
        encoder = self.reader.encoder
        if not self.reader.recurrent:
            return read_transformer(encoder, ids, mask), ()
        hidden, carried = encoder.embed_tokens(ids), []
        for i, layer in enumerate(encoder.layers):
            before = memory[2 * i : 2 * i + 2] or (torch.zeros(ids.shape[0], layer.hidden_size),) * 2
            hidden, after = read_layer(layer, hidden, before, mask)
            carried += after
        return hidden, tuple(carried) if self.carries else ()


def read_layer(layer: nn.Module, hidden: Tensor, state: State, mask: Tensor) -> tuple[Tensor, State]:
    """`WeightDropLSTM.forward` for any number of documents."""
    inputs, weights = layer._freeze_cell_at_padding(hidden, layer._weights(), mask)
    output, _, cell = layer._run(inputs, state, weights)
    return output * mask[..., None], (last_real(state[0], output, mask), cell)


def last_real(before: Tensor, hidden: Tensor, mask: Tensor) -> Tensor:
    """The state `[B, H]` at each row's last real token; `before` for a row of padding only."""
    last = (mask.sum(1) - 1).clamp(min=0)[:, None, None].expand(-1, 1, hidden.shape[2])
    return torch.where(mask.any(1)[:, None], hidden.gather(1, last)[:, 0], before)


class ZooStep(ChunkStep):
    """An encoder that looks at nothing outside the chunk but its own memory, and any attention."""

    def __init__(self, model: nn.Module, width: int):
        super().__init__(model, width)
        config = model.config
        self.transformer, recurrent = config.encoder == "transformer", config.encoder in ("gru", "lstm")
        self.num_memory = model.encoder.state_tensors if recurrent else 0
        self.hidden_size = config.backbone_config.hidden_size if self.transformer else model.encoder.output_size

    def fresh(self, batch: int) -> State:
        memory = [torch.zeros(batch, self.hidden_size) for _ in range(self.num_memory)]
        return *memory, *self.model.attention.start(torch.zeros(batch, 1, self.hidden_size), None)

    def read(self, ids: Tensor, mask: Tensor, state: State) -> tuple[Tensor, State]:
        memory, labels = state[: self.num_memory], state[self.num_memory :]
        if self.transformer:
            hidden = read_transformer(self.model.encoder, ids, mask)
        else:
            carried = tuple(tensor[None] for tensor in memory)  # [1, B, H]
            hidden, carried = self.model.encoder(self.model.embeddings(ids), mask, carried)
            memory = tuple(tensor[0] for tensor in carried)
        labels = self.fold(labels, hidden, mask)
        return self.model.attention.logits(labels), (*memory, *labels)

    def fold(self, state: State, hidden: Tensor, mask: Tensor) -> State:
        """Add token states to the label state."""
        attention, kind = self.model.attention, self.model.config.attention
        if kind in ("caml", "laat"):
            return fold_labels(attention, state, hidden, mask)
        if kind == "joint_laat":
            parents = fold_labels(attention.parents, state[:3], hidden, mask)
            return parents + fold_labels(attention.labels, state[3:], hidden, mask)
        if kind == "last":
            return last_real(state[0], hidden, mask), state[1] | mask.any(1, keepdim=True)
        return attention.update(state, hidden, mask, 0, mask.sum(1))


def fold_labels(attention: nn.Module, state: State, hidden: Tensor, mask: Tensor) -> State:
    """`LabelWiseAttention.update` without its memory-saving gradient, labels in blocks that fit its budget."""
    keys, parts = attention._keys(hidden), []
    for rows in label_chunks(len(attention.bias), 12 * hidden.shape[1], attention.memory_mb):
        scores = label_scores(keys, mask, attention.queries[rows])  # [B, l, T]
        highest = scores.amax(2)
        exponents = (scores - highest.clamp(min=torch.finfo(scores.dtype).min)[..., None]).exp()
        values = (hidden @ attention.weight[rows].T).transpose(1, 2)
        parts.append((highest, exponents.sum(2), (exponents * values).sum(2)))
    return merge_pools(state, tuple(torch.cat(part, 1) for part in zip(*parts, strict=True)))


class ConvolutionStep(ZooStep):
    """Convolutions: the state keeps the last words, as many as two neighbourhoods.

    Of the words kept and the chunk together, all but one neighbourhood at each end see everything they depend on and
    are folded into the state. Those at the right end are folded into the logits only, with nothing to their right:
    were this the end of the document, they would see nothing either.
    """

    def fresh(self, batch: int) -> State:
        words = torch.zeros(batch, 2 * self.model.encoder.halo, dtype=torch.long)
        return words, words.bool(), *super().fresh(batch)

    def read(self, ids: Tensor, mask: Tensor, state: State) -> tuple[Tensor, State]:
        halo, ids, mask = self.model.encoder.halo, torch.cat([state[0], ids], 1), torch.cat([state[1], mask], 1)
        hidden = self._convolve(self.model.embeddings(ids) * mask[..., None], mask)
        done, open_end = slice(halo, halo + self.width), slice(halo + self.width, None)
        labels = self.fold(state[2:], hidden[:, done], mask[:, done])
        so_far = self.fold(labels, hidden[:, open_end], mask[:, open_end])
        return self.model.attention.logits(so_far), (ids[:, self.width :], mask[:, self.width :], *labels)

    def _convolve(self, embedded: Tensor, mask: Tensor) -> Tensor:
        if self.model.config.encoder == "cnn":
            return self.model.encoder(embedded, mask)[0]
        return torch.cat([residual_filter(layer, embedded, mask) for layer in self.model.encoder.filters], -1)


def residual_filter(layer: nn.Module, embedded: Tensor, mask: Tensor) -> Tensor:
    """`ResidualFilter.forward` in evaluation mode, without picking real tokens out."""

    def norm(norm: nn.BatchNorm1d, hidden: Tensor) -> Tensor:
        scaled = F.batch_norm(
            hidden.transpose(1, 2), norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
        )
        return scaled.transpose(1, 2) * mask[..., None]

    hidden = torch.tanh(same_convolution(layer.convolution, embedded)) * mask[..., None]
    inner = torch.tanh(norm(layer.first_norm, same_convolution(layer.first, hidden)))
    inner = norm(layer.second_norm, same_convolution(layer.second, inner))
    return torch.tanh(inner + norm(layer.shortcut_norm, same_convolution(layer.shortcut, hidden)))


class NgramStep(ChunkStep):
    """fastText: the last words, to which the next n-grams reach back, and the sum and number of n-grams."""

    def fresh(self, batch: int) -> State:
        words = torch.zeros(batch, self.model.encoder.max_ngram - 1, dtype=torch.long)
        size = self.model.encoder.output_size
        return words, words.bool(), torch.zeros(batch, size), torch.zeros(batch)

    def read(self, ids: Tensor, mask: Tensor, state: State) -> tuple[Tensor, State]:
        encoder, reach = self.model.encoder, self.model.encoder.max_ngram - 1
        ids, mask = torch.cat([state[0], ids], 1), torch.cat([state[1], mask], 1)
        total, count = state[2:]
        code, valid = ids, mask
        for n in range(encoder.max_ngram):
            if n:
                code = code[:, :-1] * 116049371 + ids[:, n:]
                valid = valid[:, :-1] & mask[:, n:]
            fresh = valid[:, reach - n :]
            rows = encoder.vocab_size + code[:, reach - n :] % encoder.buckets if n else code[:, reach:]
            total = total + (encoder.table[rows] * fresh[..., None]).sum(1)
            count = count + fresh.sum(1)
        return self.model.attention.logits((total, count)), (ids[:, self.width :], mask[:, self.width :], total, count)
