"""Pictures that belong to one chapter each."""
