"""Memory of training PLANT at the size of MIMIC-III: `python -m benchmarks.run --only memory`.

8,929 labels, an AWD-LSTM of 400/1152×3, eight documents of 1,500 tokens: a step of the optimizer in a process of its
own, whose peak is that of the whole program. A step on their first chunk goes before it, so that the optimizer already
holds what it keeps.
"""

import time
from collections.abc import Iterator

import torch

from benchmarks.bench_decoder import LABELS, RELEVANT, draw_words
from benchmarks.measuring import each_in_own_process, make_row, peak_mb
from hf_labelattn import AwdLstmConfig, PlantConfig, PlantForICDCoding, TokenRankerConfig

VOCAB = 60_000
LIMIT_MB = 8 * 1024


def make_plant(labels: int, vocab: int = VOCAB, **encoder: int) -> PlantForICDCoding:
    """PLANT of the paper's size with random weights and random relevances."""
    config = PlantConfig(
        vocab_size=vocab,
        num_labels=labels,
        encoder_config=AwdLstmConfig(vocab_size=vocab, **encoder),
        ranker_config=TokenRankerConfig(vocab_size=vocab, num_labels=labels),
        relevance_size=labels * RELEVANT,
    )
    model = PlantForICDCoding(config)
    decoder = model.reader.decoder
    decoder.relevance_starts.copy_(torch.arange(0, labels * RELEVANT + 1, RELEVANT))
    decoder.relevance_tokens.copy_(torch.randint(0, vocab, (labels * RELEVANT,)))
    decoder.relevance_values.uniform_()
    return model


def chunked(batch: int, tokens: int, chunk: int, vocab: int = VOCAB) -> tuple[torch.Tensor, torch.Tensor]:
    """Documents `[B, chunks, T]` of equal length, the last chunk filled with padding, and their mask."""
    words = torch.from_numpy(draw_words((batch, tokens))).long() % (vocab - 2) + 2
    mask = torch.nn.functional.pad(torch.ones_like(words), (0, -tokens % chunk))
    return torch.nn.functional.pad(words, (0, -tokens % chunk)).view(batch, -1, chunk), mask.view(batch, -1, chunk)


def plant_row(batch: int, tokens: int) -> dict:
    """Steps of AdamW on documents of equal length."""
    model = make_plant(LABELS).train()
    ids, mask = chunked(batch, tokens, model.config.chunk_size)
    truth = (torch.rand(batch, LABELS) < 15 / LABELS).float()
    optimizer, times = torch.optim.AdamW(model.parameters(), 1e-4, fused=True), []
    for read in (slice(1), slice(None)):
        started = time.process_time()
        optimizer.zero_grad()
        model(ids[:, read], mask[:, read], labels=truth).loss.backward()
        optimizer.step()
        times.append(time.process_time() - started)
    name = f"PLANT training, {LABELS:,} labels, 400/1152×3, batch {batch}, {tokens:,}-token documents: whole program"
    return make_row(name, peak_mb(), LIMIT_MB, "MB", times[-1], None, peak_mb())


def rows(quick: bool = False) -> Iterator[dict]:
    """The row; quick reads shorter documents."""
    return each_in_own_process([(plant_row, (8, 144 if quick else 1500))])
