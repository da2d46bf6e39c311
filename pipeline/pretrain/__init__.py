"""The stage pretrain: an encoder learns the signals of synthetic pairs."""
