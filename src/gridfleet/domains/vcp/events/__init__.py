"""Recipients of events: the vhosts that the gateway serves, and the plants with subscriptions."""
