"""The plants of a fleet as brief rows, searched, filtered and sorted."""
