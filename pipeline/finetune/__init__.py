"""The stage finetune: a pre-trained encoder learns human ratings."""
