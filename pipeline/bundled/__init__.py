"""The models under models/bundled: how they are made. Not part of the pipeline of the stages."""
