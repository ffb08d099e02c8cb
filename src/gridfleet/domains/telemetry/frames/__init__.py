"""Writing: layouts, daily partitions, and the merge of a batch of frames."""
