"""Transformer encoders that read a document chunk by chunk, each on its own."""

import torch
from torch import Tensor
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel


def build_transformer(config: PreTrainedConfig) -> PreTrainedModel:
    """The encoder a configuration names, without the pooler that no attention here reads."""
    try:
        return AutoModel.from_config(config, add_pooling_layer=False)
    except TypeError:
        return AutoModel.from_config(config)


@torch.no_grad()
def load_transformer(encoder: PreTrainedModel, name_or_path: str) -> None:
    """Fill an encoder with the pretrained weights found at `name_or_path`."""
    pretrained = AutoModel.from_pretrained(name_or_path, dtype=torch.float32).state_dict()
    encoder.load_state_dict({name: pretrained[name] for name in encoder.state_dict()})


def read_chunks(encoder: PreTrainedModel, ids: Tensor, mask: Tensor) -> Tensor:
    """Token states `[B, C, T, H]` of chunks `[B, C, T]`.

    Chunks of padding only are left out (they would give NaN inside some encoders, and cost as much as real ones) and
    come back as zeros.
    """
    flat, real = ids.flatten(0, 1), mask.flatten(0, 1)
    keep = real.any(1).nonzero()[:, 0]
    size = encoder.config.hidden_size
    hidden = torch.zeros(*flat.shape, size, dtype=encoder.dtype, device=ids.device)
    if len(keep):
        read = encoder(input_ids=flat[keep], attention_mask=real[keep].long()).last_hidden_state
        hidden = hidden.to(read.dtype).index_put((keep,), read)
    return hidden.view(*ids.shape, size)
