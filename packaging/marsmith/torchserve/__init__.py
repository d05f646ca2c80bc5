"""The real TorchServe and its worker: configure, start, watch and stop them."""
