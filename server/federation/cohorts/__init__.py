"""Rounds whose nodes are gateways: each answers for a cohort of devices, with one sum."""
