"""Other homes than a model store: the model of an archive as SageMaker, DJL Serving and Kubernetes take it."""
