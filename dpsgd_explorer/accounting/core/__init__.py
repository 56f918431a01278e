"""What the accountants share: the mixture, transforms, roots, validation."""
