from tests.helpers.gpu import batch_support, context, cuda_engine_factory, gpu, rig

__all__ = ["batch_support", "context", "cuda_engine_factory", "gpu", "rig"]
