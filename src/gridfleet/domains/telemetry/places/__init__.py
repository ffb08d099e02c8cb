"""Sources and layouts by id: the owner of a source, and the metrics of a layout."""
