"""The container image of TorchServe and its archives: built by whichever tool is there, checked, and run."""
