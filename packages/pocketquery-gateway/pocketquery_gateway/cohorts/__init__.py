"""What goes between the server and gateways: each answers for a cohort of devices, with one sum."""
