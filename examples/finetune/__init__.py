"""A small language model of this project, fine-tuned with and without privacy."""
