"""What can be asked for, without torch: configurations, kinds, events, presets."""
