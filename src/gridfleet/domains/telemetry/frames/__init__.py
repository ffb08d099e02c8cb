"""Write telemetry: layouts, daily partitions, and the merge of a batch of frames."""
