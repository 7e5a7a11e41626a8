"""`python -m hf_labelattn.data --train_file train.jsonl.gz`: the counts of a source of documents."""

import sys

from .notes import main

if __name__ == "__main__":
    sys.exit(main())
