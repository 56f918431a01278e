"""Data and runs that several chapters and widgets use."""
