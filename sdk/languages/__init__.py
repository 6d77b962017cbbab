"""Which languages and scripts texts are in, and whether an encoder reads them."""
