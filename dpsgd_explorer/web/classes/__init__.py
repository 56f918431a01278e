"""Classes as the web shows them: links, what students begin from, the roster."""
