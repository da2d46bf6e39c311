"""The stage adapt: an encoder goes on learning from the extracted text as a masked language model."""
