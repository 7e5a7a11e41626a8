"""Label-attention text classification for the Hugging Face ecosystem."""
