"""The Learning Hub: chapters, widgets and examples."""
